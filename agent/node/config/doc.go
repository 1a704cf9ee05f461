// Package config is the agent's configuration: one documented struct, read
// from strict YAML, completed with defaults, then validated. Reading and
// validating report every problem at once, each with the path of its field, so
// that a wrong file takes one round to mend.
//
// Where the kubelet has a field for the same thing, ebb's bears the kubelet's
// name and meaning (KubeletConfiguration v1beta1).
package config
