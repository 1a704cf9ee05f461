// Package config is the controller's configuration: one struct, read from strict YAML over the
// defaults, then validated. Every problem is reported at once, each with the path of its field.
//
// default.yaml documents every field, and has the values that apply if the file is empty. A test
// compares it with [Default] and docs/controller-config.md.
package config
