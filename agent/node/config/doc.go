// Package config is the agent's configuration: one documented struct, read from strict YAML,
// completed with defaults, then validated. Every problem is reported at once, each with the path of
// its field, so that a wrong file can be fixed in one round.
//
// If the kubelet has a field for the same thing, ebb's field has the kubelet's name and meaning
// (KubeletConfiguration v1beta1).
package config
