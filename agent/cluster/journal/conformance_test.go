package journal_test

import (
	"testing"

	"github.com/ebb-agent/ebb/agent/cluster/journal"
	"github.com/ebb-agent/ebb/agent/cluster/journal/journaltest"
)

func TestMemory(t *testing.T) { journaltest.Conformance(t, new(journal.Memory), "j") }
