package e2e

import (
	"testing"

	"github.com/ebb-agent/ebb/tools/node"
)

// TestRuntimeUpgrade: containerd 1.6 becomes 2 under a running agent, with the same root and
// state, and containers that go on. The agent follows. It keeps its records of last use, and
// the sandbox image, which was known by its name and is pinned now.
func TestRuntimeUpgrade(t *testing.T) {
	t.Parallel()
	b := newFixture(t, node.Debian, plains("a", 8)...)
	b.start()
	b.use("a3", "a6", "a1", "a5")
	ends := b.sleepIn("a7")
	b.use("a0", "a4", "a2")
	b.awaitOrder()
	mark := b.journal.mark()
	b.must(b.node.Upgrade(b.ctx, node.V2))
	b.journal.await(t, mark, "runtime events are back")
	b.awaitSandbox("pinned")
	b.awaitReady()
	b.awaitOrder()
	b.use("a6")
	b.awaitReason("a7", "in_use")
	mark = b.journal.mark()
	b.cross()
	b.journal.await(t, mark, "reclaim run ended")
	b.checkRun(mark)
	b.end("a7", ends) // its shim is that of 1.6
	b.awaitOrderOfRest()
}
