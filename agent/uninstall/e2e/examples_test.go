package e2e

import (
	"path/filepath"

	"github.com/ebb-agent/ebb/tools/buildtest"
)

// testExamples runs the examples of the help of check. Here it refuses each of them, because the kubelet
// removes no images.
func (b *fixture) testExamples() {
	for _, args := range buildtest.Examples(b, filepath.Join(b.bin, "ebb"), "uninstall", "check") {
		out, errs, code := b.ebb(b.kubeconfig, nil, append(args[1:], "--wait", "0s")...)
		if code != 3 || out == "" {
			b.Errorf("%q: exit code %d\n%s%s", args, code, out, errs)
		}
	}
}
