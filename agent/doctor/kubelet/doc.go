// Package kubelet reads what a running kubelet does about images, dead
// containers and full disks: from its command line and files, or from its own
// /configz.
//
// # Purpose
//
// Whether two collectors are at work, and where the eviction manager steps in,
// depends on a handful of settings that can stand in three places. [Settings]
// has each with the place it came from, so that a person knows where to change
// it. Nothing is judged here, and nothing is changed.
//
// # Invariants
//
//   - The places are merged as the kubelet merges them: defaults, the file of
//     --config, the *.conf files below --config-dir in lexical order (JSON merge
//     patch), then flags.
//   - The kubelet's paths are its own: they are opened below its root, and links
//     in them lead nowhere else.
//   - Command lines, files and answers are untrusted: each is bounded, and a part
//     that makes no sense is an error, never a default.
//
// # Failure modes
//
// A process that cannot be looked at (another user's, hidepid) is not found. A
// kubelet that is part of another program (k3s, MicroK8s) takes its settings
// from there: it is found, and /configz has to be asked.
//
// # Sources
//
// Kubernetes v1.36.3: cmd/kubelet/app/server.go (merging, flags),
// cmd/kubelet/app/options/options.go (flags and their defaults),
// pkg/kubelet/apis/config/v1beta1/defaults.go, pkg/kubelet/eviction (thresholds,
// defaults_linux.go), pkg/kubelet/server/auth.go (/configz).
package kubelet
