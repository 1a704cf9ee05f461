// Package kubelet reads what a running kubelet does about images, dead containers and full disks.
// It reads the kubelet's command line and files, or the kubelet's own /configz.
//
// # Purpose
//
// Whether two collectors are active, and when the eviction manager acts, depends on a handful of
// settings that can be set in three places. [Settings] has each setting with the place it came
// from, so that people know where to change it. This package judges nothing and changes nothing.
//
// # Invariants
//
//   - The places are merged as the kubelet merges them: defaults, the file of --config, the *.conf
//     files below --config-dir in lexical order (JSON merge patch), then flags.
//   - Paths of the kubelet are opened below the kubelet's root. Links in them cannot lead out of
//     it.
//   - Command lines, files and answers are untrusted. Each is bounded. A part that cannot be parsed
//     is an error, never a default.
//
// # Failure modes
//
// A process that this process may not inspect (another user's, hidepid) is not found. A kubelet
// that is part of another program (k3s, MicroK8s) gets its settings from that program. It is found,
// but only /configz has its settings.
//
// # Sources
//
// Kubernetes v1.36.3: cmd/kubelet/app/server.go (merging, flags),
// cmd/kubelet/app/options/options.go (flags and their defaults),
// pkg/kubelet/apis/config/v1beta1/defaults.go, pkg/kubelet/eviction (thresholds,
// defaults_linux.go), pkg/kubelet/server/auth.go (/configz).
package kubelet
