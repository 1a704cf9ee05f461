package lock

import (
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestContainerIn(t *testing.T) {
	id := strings.Repeat("0123456789abcdef", 4)
	for text, want := range map[string]string{
		"0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-" + id + ".scope\n": id,
		"12:cpu:/kubepods/besteffort/pod1/" + id + "\n":                            id,
		"0::/\n":                            "",
		"0::/system.slice/ebb.service\n":    "",
		"0::/" + id + "0\n":                 "",
		"0::/" + strings.ToUpper(id) + "\n": "",
	} {
		if got := containerIn(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestHolderText(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600))
	for want, h := range map[string]Holder{
		"a process that cannot be seen from here": {},
		"pid 7":                  {PID: 7, PIDNamespace: pidNamespace()},
		"pid 7 in its container": {PID: 7, PIDNamespace: 1},
		"pid 7 on the host, since 2026-01-02T02:04:05Z":                       {PID: 7, PIDNamespace: hostPIDs, Since: at},
		`pod "a/b\n", pid 7, container c, version v1`:                         {Namespace: "a", Pod: "b\n", PID: 7, Container: "c", Version: "v1"},
		"a process that cannot be seen from here, since 2026-01-02T02:04:05Z": {Since: at},
	} {
		if strings.Contains(want, "on the host") && pidNamespace() == hostPIDs {
			want = strings.Replace(want, " on the host", "", 1)
		}
		if got := h.String(); got != want {
			t.Errorf("%+v: %q, want %q", h, got, want)
		}
	}
}

// TestFlocker: only who holds, of that very file.
func TestFlocker(t *testing.T) {
	dev := unix.Mkdev(0xfe, 0x12)
	text := `1: POSIX  ADVISORY  WRITE 1 fe:12:77 0 EOF
2: FLOCK  ADVISORY  READ  2 fe:12:77 0 EOF
3: FLOCK  ADVISORY  WRITE 3 fe:12:7 0 EOF
4: FLOCK  ADVISORY  WRITE 4 fe:12:77 0 EOF
4: -> FLOCK  ADVISORY  WRITE 5 fe:12:77 0 EOF
`
	if got := flocker(strings.NewReader(text), dev, 77); got != 4 {
		t.Errorf("holder %d, want 4", got)
	}
	if got := flocker(strings.NewReader(text), dev, 78); got != 0 {
		t.Errorf("holder %d of a file that nobody holds", got)
	}
}

func FuzzFlocker(f *testing.F) {
	f.Add("1: FLOCK  ADVISORY  WRITE 4 fe:12:77 0 EOF\n")
	f.Fuzz(func(t *testing.T, text string) {
		if pid := flocker(strings.NewReader(text), unix.Mkdev(0xfe, 0x12), 77); pid < 0 {
			t.Errorf("%d", pid)
		}
	})
}

func FuzzNote(f *testing.F) {
	f.Add([]byte(`{"pid":1,"pod":"a","since":"2026-01-02T03:04:05Z"}`))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, note []byte) {
		file, err := os.CreateTemp(dir, "")
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if _, err := file.Write(note); err != nil {
			t.Fatal(err)
		}
		text := holderOf(file).String()
		if len(text) > 5000 || strings.IndexFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) >= 0 {
			t.Errorf("%q", text)
		}
	})
}
