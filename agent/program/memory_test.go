package program

import (
	"io"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// The environment variable wins, even "off"; else the runtime's limit is the one of
// the container this test is in, if there is any.
func TestLimitMemory(t *testing.T) {
	const variable = "EBB_TEST_LIMIT_MEMORY"
	if os.Getenv(variable) != "" {
		LimitMemory(slog.New(slog.NewTextHandler(io.Discard, nil)))
		os.Stdout.WriteString("limit=" + strconv.FormatInt(debug.SetMemoryLimit(-1), 10) + "\n")
		return
	}
	own := int64(math.MaxInt64)
	if limit, err := memlimit.FromCgroup(); err == nil {
		own = int64(limit / 10 * 9)
	}
	for env, want := range map[string]int64{"GOMEMLIMIT=123MiB": 123 << 20, "GOMEMLIMIT=off": math.MaxInt64, "GOMEMLIMIT=": own} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestLimitMemory$")
		cmd.Env = append(os.Environ(), variable+"=1", env)
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "limit="+strconv.FormatInt(want, 10)+"\n") {
			t.Errorf("%s: %v, %s; want %d", env, err, out, want)
		}
	}
}
