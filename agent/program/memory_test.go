package program

import (
	"io"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
)

const (
	v2     = "29 23 0:26 / /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw,nsdelegate\n"
	v1     = "30 23 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n31 23 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
	hybrid = v1 + "32 23 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
	bound  = "31 23 0:28 /kubepods/pod1/c1 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
)

func TestContainerMemory(t *testing.T) {
	const none = math.MaxInt64
	for name, c := range map[string]struct {
		mounts, groups string
		limits         map[string]string
		want           int64
	}{
		"v2, a namespace of its own":  {v2, "0::/\n", map[string]string{"memory.max": "536870912\n"}, 512 << 20},
		"v2, the host's namespace":    {v2, "0::/kubepods/pod1/c1\n", map[string]string{"kubepods/pod1/c1/memory.max": "268435456\n"}, 256 << 20},
		"v2, the pod's is lower":      {v2, "0::/kubepods/pod1/c1\n", map[string]string{"kubepods/pod1/c1/memory.max": "max\n", "kubepods/pod1/memory.max": "1048576\n", "kubepods/memory.max": "9999999\n"}, 1 << 20},
		"v2, no limit":                {v2, "0::/\n", map[string]string{"memory.max": "max\n"}, none},
		"v2, the root has no file":    {v2, "0::/\n", nil, none},
		"v1":                          {v1, "4:memory:/a/b\n1:cpu,cpuacct:/\n", map[string]string{"memory/a/b/memory.limit_in_bytes": "1073741824\n", "memory/memory.limit_in_bytes": "9223372036854771712\n"}, 1 << 30},
		"v1, mounted for a container": {bound, "4:memory:/kubepods/pod1/c1\n", map[string]string{"memory/memory.limit_in_bytes": "1048576"}, 1 << 20},
		"v1, mounted out of sight":    {bound, "4:memory:/\n", map[string]string{"memory/memory.limit_in_bytes": "1048576"}, 1 << 20},
		"v1, a name that only begins": {bound, "4:memory:/kubepods/pod1/c10\n", map[string]string{"memory/memory.limit_in_bytes": "1048576", "memory/0/memory.limit_in_bytes": "4096"}, 1 << 20},
		"v1, no limit":                {v1, "4:memory:/\n", map[string]string{"memory/memory.limit_in_bytes": "9223372036854771712\n"}, none},
		"both, v1 has the memory":     {hybrid, "4:memory:/a\n0::/\n", map[string]string{"memory/a/memory.limit_in_bytes": "1048576"}, 1 << 20},
		"nonsense":                    {v2, "0::/\n", map[string]string{"memory.max": "lots\n"}, none},
		"zero":                        {v2, "0::/\n", map[string]string{"memory.max": "0\n"}, none},
		"no cgroups":                  {"22 1 0:1 / / rw - ext4 /dev/vda rw\n", "", nil, none},
		"nothing to read":             {"", "", nil, none},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			files := map[string]string{"proc/self/mountinfo": c.mounts, "proc/self/cgroup": c.groups}
			for at, limit := range c.limits {
				files["sys/fs/cgroup/"+at] = limit
			}
			for at, text := range files {
				at = filepath.Join(root, at)
				if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if got := containerMemory(root); got != c.want {
				t.Errorf("%d, want %d", got, c.want)
			}
		})
	}
}

// What the environment says wins, even "off"; else the runtime's limit is the one of
// the container this test is in, if there is any.
func TestLimitMemory(t *testing.T) {
	const variable = "EBB_TEST_LIMIT_MEMORY"
	if os.Getenv(variable) != "" {
		LimitMemory(slog.New(slog.NewTextHandler(io.Discard, nil)))
		os.Stdout.WriteString("limit=" + strconv.FormatInt(debug.SetMemoryLimit(-1), 10) + "\n")
		return
	}
	own := containerMemory("/")
	if own != math.MaxInt64 {
		own = own / 10 * 9
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
