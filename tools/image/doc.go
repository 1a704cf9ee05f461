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
// There is no shell, no libc and no public authority: ebb speaks TLS to the API server and
// to the kubelet, each with the cluster's own authority. There is no entrypoint, because
// manifests name the command. The user is nonroot; the agent has to ask for root.
//
// # Invariants
//
//   - The same commit, built by the same Go, is the same index digest and the same archive
//     byte by byte: times are the commit's, files are in order and root's, no binary has
//     paths of the builder, and settings that would change code are overruled.
//   - What labels, annotations and the SBOM say of the binaries was read from the binaries
//     (debug/buildinfo). Binaries that disagree about their version are not put into one
//     image.
//   - The tag is the appVersion of the tree's chart, for which the manifests ask.
//   - The SBOM asserts a licence only if its text leaves no doubt.
//
// # Failure modes
//
// Without git there is no commit: the version is that of the chart alone, and times are
// SOURCE_DATE_EPOCH's or 1970. Changes that are not committed show as ".dirty" in the
// version, and not in the tag. A licence file that cannot be found makes NOASSERTION.
//
// Sources: OCI image-spec v1.1, containerd's core/images/archive, SPDX 2.3, the purl type
// golang, https://reproducible-builds.org/specs/source-date-epoch, cmd/go -trimpath.
package image
