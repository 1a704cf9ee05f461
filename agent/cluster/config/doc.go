// Package config is the controller's configuration: one struct, read from strict
// YAML over the defaults, then validated. Every problem is reported at once, each with
// the path of its field.
//
// default.yaml is both the documentation of every field and what an empty file
// means: a test holds it against [Default] and against docs/controller-config.md.
package config
