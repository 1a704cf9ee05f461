// Package image makes ebb's container image: one OCI index for amd64 and arm64,
// with neither a container daemon nor a registry.
//
// # What is in it
//
//	/usr/bin/ebb, ebb-agent, ebb-controller   static, without symbols
//	/etc/passwd, group                        root and nonroot (65532)
//	/usr/share/sbom/ebb.spdx.json             every Go module that was linked
//	/usr/share/doc/ebb/LICENSE, THIRD-PARTY   licences of ebb and of those modules
//
// Nothing else: no shell, no libc, no certificates. What ebb speaks TLS to is
// the API server and the kubelet, each with the cluster's own authority, from the
// service account, the kubeconfig or the configuration. Without one, verification
// fails, which is right: no public authority vouches for a cluster.
//
// There is no entrypoint; manifests name the command, and the image alone runs
// "ebb", which explains itself. The user is nonroot: what needs root, the agent,
// has to ask for it (runAsUser: 0), and nothing else gets it by omission.
//
// # Invariants
//
//   - The same commit, built by the same Go, is the same index digest, and the same
//     archive byte by byte, wherever it is built: times are the commit's, files
//     are in order and root's, paths of the builder are in no binary, and
//     settings of the builder's environment that would change code are overruled.
//   - What labels, annotations and the SBOM say of the binaries was read from the
//     binaries (debug/buildinfo), not from the source tree that they should be of.
//     Binaries that disagree about their version are not put into one image.
//   - The tag is the appVersion of the tree's chart, whatever the commit is and what was
//     not committed: what is built here is what the manifests beside it ask for.
//   - The SBOM asserts a licence only if its text leaves no doubt.
//
// # Who owns what
//
// [Make] owns its temporary directory and removes it. Each file of the output
// appears by a rename, so whoever sees one sees all of it; the archive comes last.
//
// # Failure modes
//
// Without git, or outside a clone, there is no commit: the version is that of the
// chart alone, and times are SOURCE_DATE_EPOCH's or 1970. Changes that are not
// committed show as ".dirty" in the version, and not in the tag. A
// licence file that cannot be found makes NOASSERTION, never an error.
//
// # Sources
//
// OCI image-spec v1.1 (image-layout.md, annotations.md, config.md), containerd's
// core/images/archive (io.containerd.image.name), SPDX 2.3, the purl type golang,
// https://reproducible-builds.org/specs/source-date-epoch, cmd/go -trimpath and -buildvcs.
package image
