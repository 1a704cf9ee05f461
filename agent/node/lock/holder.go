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

// Bounds in bytes: of what is read of the file, and of one word that is printed.
const (
	maxNote = 4 << 10
	maxWord = 256
)

// Holder describes the process that holds the lock. Every field may be missing.
type Holder struct {
	PID          int       `json:"pid,omitempty"`
	PIDNamespace uint64    `json:"pidNamespace,omitempty"` // inode; 0: the reader's, or unknown
	Namespace    string    `json:"namespace,omitempty"`
	Pod          string    `json:"pod,omitempty"`
	PodUID       string    `json:"podUID,omitempty"`
	Container    string    `json:"container,omitempty"`
	Version      string    `json:"version,omitempty"`
	Since        time.Time `json:"since,omitzero"`
}

// Self returns this process. The names of the pod come from the environment (POD_NAME, POD_NAMESPACE,
// POD_UID); the container from the cgroup, if that can be seen.
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

// containerIn finds the ID of a runtime's container, 64 hexadecimal digits, in the text of
// /proc/PID/cgroup. A container in a cgroup namespace of its own does not see it: the result is "".
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

// String describes the holder for an error message. It quotes words of the file.
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

// where names the PID namespace of PID; "" if it is the reader's, or unknown.
func (h Holder) where() string {
	switch h.PIDNamespace {
	case 0, pidNamespace():
		return ""
	case hostPIDs:
		return " on the host"
	}
	return " in its container"
}

// quote cuts a word to maxWord bytes, and quotes it unless it is plain.
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

// holderOf reads the note in the file, and asks the kernel for the PID.
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
		h = Holder{} // the note is that of an earlier holder
	}
	h.PID, h.PIDNamespace = pid, 0
	return h
}

// flocker finds the PID that holds a file in /proc/locks; 0 if that is unknown. A line is
// "12: FLOCK  ADVISORY  WRITE 4711 00:18:1234 0 EOF"; that of a process that waits has "->".
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
