// Package image makes ebb's container image: one OCI index for amd64 and arm64, with
// neither a container daemon nor a registry.
//
// # What is in it
//
//	/usr/bin/ebb, ebb-agent, ebb-controller   static, without symbols
//	/etc/passwd, group                        root and nonroot (65532)
//	/usr/share/sbom/ebb.spdx.json             every Go module that was linked
//	/usr/share/doc/ebb/LICENSE, THIRD-PARTY   licences of ebb and of those modules
//	/usr/share/doc/ebb/LICENSE-GPL-2.0-only   the other licence of the kernel programs
//
// The image has no shell, no libc and no public certificate authorities: ebb speaks TLS
// only to the API server and to the kubelet, each with the cluster's own authority. There
// is no entrypoint, because manifests name the command. The user is nonroot; the agent's
// manifest has to request root.
//
// # Invariants
//
//   - The same commit, built by the same Go, gives the same index digest and the same
//     archive, byte by byte. Times are the commit's; files are sorted and owned by root;
//     binaries contain no paths of the builder. Settings of the builder that would change
//     code are overridden.
//   - Labels, annotations and the SBOM describe the binaries from their own build
//     information (debug/buildinfo). Binaries with different versions are not put into one
//     image.
//   - The tag is the appVersion of the tree's chart, which the manifests ask for.
//   - The SBOM asserts a licence only if the text is unambiguous.
//
// # Failure modes
//
// Without git there is no commit: the version is the chart's alone, and times are
// SOURCE_DATE_EPOCH or 1970. Uncommitted changes appear as ".dirty" in the version, and
// not in the tag. If a licence file is not found, the SBOM says NOASSERTION.
//
// Sources: OCI image-spec v1.1, containerd's core/images/archive, SPDX 2.3, the purl type
// golang, https://reproducible-builds.org/specs/source-date-epoch, cmd/go -trimpath.
package image
