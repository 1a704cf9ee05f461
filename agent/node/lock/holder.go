package lock

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// hostPIDs is the inode number of the first PID namespace (PROC_PID_INIT_INO).
const hostPIDs = 0xEFFFFFFC

// Bounds of what is believed of the file, and of one word in it.
const (
	maxNote = 4 << 10
	maxWord = 256
)

// Holder is who holds the lock, as far as is known: every field may be missing.
type Holder struct {
	PID          int       `json:"pid,omitempty"`
	PIDNamespace uint64    `json:"pidNamespace,omitempty"` // in which PID counts
	Namespace    string    `json:"namespace,omitempty"`
	Pod          string    `json:"pod,omitempty"`
	PodUID       string    `json:"podUID,omitempty"`
	Container    string    `json:"container,omitempty"`
	Version      string    `json:"version,omitempty"`
	Since        time.Time `json:"since,omitzero"`
}

// Self is this process. The pod's names come from its environment (POD_NAME,
// POD_NAMESPACE, POD_UID); the container by its cgroup, if that can be seen.
func Self(version string) Holder {
	h := Holder{
		PID: os.Getpid(), PIDNamespace: pidNamespace(), Version: version, Since: time.Now().UTC().Truncate(time.Second),
		Namespace: os.Getenv("POD_NAMESPACE"), Pod: os.Getenv("POD_NAME"), PodUID: os.Getenv("POD_UID"),
	}
	if b, err := os.ReadFile("/proc/self/cgroup"); err == nil {
		h.Container = containerIn(string(b))
	}
	return h
}

func pidNamespace() uint64 {
	var st unix.Stat_t
	if err := unix.Stat("/proc/self/ns/pid", &st); err != nil {
		return 0
	}
	return st.Ino
}

// containerIn finds the id of a runtime's container, 64 hexadecimal digits, in
// /proc/PID/cgroup. In a cgroup namespace of its own a container does not see it.
func containerIn(text string) string {
	const digits = 64
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'f')
	}) {
		if len(word) == digits {
			return word
		}
	}
	return ""
}

// String is for an error message: what the file says is quoted.
func (h Holder) String() string {
	var parts []string
	if h.Pod != "" {
		parts = append(parts, "pod "+quote(h.Namespace+"/"+h.Pod))
	}
	if h.PID != 0 {
		parts = append(parts, fmt.Sprintf("pid %d%s", h.PID, h.where()))
	}
	if h.Container != "" {
		parts = append(parts, "container "+quote(h.Container))
	}
	if h.Version != "" {
		parts = append(parts, "version "+quote(h.Version))
	}
	if len(parts) == 0 {
		parts = append(parts, "a process that cannot be seen from here")
	}
	if !h.Since.IsZero() {
		parts = append(parts, "since "+h.Since.UTC().Format(time.RFC3339))
	}
	return strings.Join(parts, ", ")
}

// where says in whose count the number is, unless it is the reader's.
func (h Holder) where() string {
	switch h.PIDNamespace {
	case 0, pidNamespace():
		return ""
	case hostPIDs:
		return " on the host"
	}
	return " in its container"
}

// quote leaves plain words as they are.
func quote(s string) string {
	if len(s) > maxWord {
		s = s[:maxWord]
	}
	for _, r := range s {
		plain := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-._/+~:()", r)
		if !plain {
			return strconv.QuoteToASCII(s)
		}
	}
	return s
}

// holderOf reads the note in the file, and asks the kernel for the number.
func holderOf(f *os.File) Holder {
	var h Holder
	text, err := io.ReadAll(io.NewSectionReader(f, 0, maxNote))
	if err != nil || json.Unmarshal(text, &h) != nil || h.PID < 0 {
		h = Holder{}
	}
	var st unix.Stat_t
	locks, err := os.Open("/proc/locks")
	if err != nil || unix.Fstat(int(f.Fd()), &st) != nil {
		return h
	}
	defer locks.Close()
	pid := flocker(locks, st.Dev, st.Ino)
	if pid == 0 {
		return h
	}
	if h.PIDNamespace == pidNamespace() && h.PID != pid {
		h = Holder{} // the note is of one who was here before
	}
	h.PID, h.PIDNamespace = pid, 0
	return h
}

// flocker finds who holds a file in /proc/locks; 0 if that is unknown. Lines are
// "12: FLOCK  ADVISORY  WRITE 4711 00:18:1234 0 EOF", those that wait have "->".
func flocker(locks io.Reader, dev, inode uint64) int {
	file := fmt.Sprintf("%02x:%02x:%d", unix.Major(dev), unix.Minor(dev), inode)
	lines := bufio.NewScanner(locks)
	for lines.Scan() {
		w := strings.Fields(lines.Text())
		if len(w) < 6 || w[1] != "FLOCK" || w[3] != "WRITE" || w[5] != file {
			continue
		}
		if pid, err := strconv.Atoi(w[4]); err == nil && pid > 0 {
			return pid
		}
	}
	return 0
}
