package show

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/ebb-agent/ebb/agent/node/page"
)

// Writers is the part of an agent's answer to /writers that ebb top uses.
type Writers struct {
	Time    time.Time `json:"time"`
	Unknown string    `json:"unknown"`
	Writers []Writer  `json:"writers"`
}

// Writer is what one container, or one cgroup of the host, did to the watched filesystems.
type Writer struct {
	Namespace  string `json:"namespace"`
	Pod        string `json:"pod"`
	Container  string `json:"container"`
	ID         string `json:"id"`
	Cgroup     string `json:"cgroup"`
	NetBytes   int64  `json:"netBytes"`
	GrownBytes uint64 `json:"grownBytes"`
	Ended      bool   `json:"ended"`
}

// Largest returns the n writers whose files have grown most since they started, the largest first.
func (w Writers) Largest(n int) []Writer {
	list := slices.Clone(w.Writers)
	slices.SortFunc(list, func(a, b Writer) int {
		return cmp.Or(cmp.Compare(b.NetBytes, a.NetBytes), cmp.Compare(a.key(), b.key()))
	})
	return list[:min(len(list), n)]
}

func (w Writer) key() string { return w.ID + "\x00" + cmp.Or(w.Container, w.Cgroup) }

func (w Writer) name() string {
	if w.Pod != "" {
		return w.Namespace + "/" + w.Pod + "/" + w.Container
	}
	return cmp.Or(w.Container, w.Cgroup, "unknown")
}

// Screen is what ebb top shows at one time.
type Screen struct {
	Node   string
	Status page.Status
	Images page.Images // read less often than the rest
	Now    Writers
	Before Writers // the previous reading; the zero value: there is none
	Err    error   // why the latest reading failed; the rest is older
}

// Top shows a screen of at most height lines, none wider than the view.
func Top(w io.Writer, v View, height int, s Screen) error {
	t := &text{View: v}
	t.line("%s  %s  %s", Clean(s.Node), s.Status.Time.UTC().Format("15:04:05"), topState(s))
	topDisks(t, s)
	rows := max((height-strings.Count(t.String(), "\n")-6)/2, 1) // two lists with their heads, and the last line
	topWriters(t, s, rows)
	topImages(t, s, rows)
	lines := strings.Split(strings.TrimSuffix(t.String(), "\n"), "\n")
	lines = append(lines[:min(len(lines), max(height-1, 0))], "q: quit")
	for i, l := range lines {
		if v.Width > 0 && !strings.HasPrefix(l, "\x1b") {
			lines[i] = cut(l, v.Width, false)
		}
	}
	_, err := io.WriteString(w, strings.Join(lines, "\n"))
	return err
}

func topState(s Screen) string {
	switch {
	case s.Err != nil:
		return "NO ANSWER: " + Clean(s.Err.Error())
	case !s.Status.Ready:
		return "not ready: " + Clean(s.Status.NotReady)
	case s.Status.Paused != nil:
		return "paused " + Paused(s.Status.Time, *s.Status.Paused)
	case s.Status.Running:
		return "removing images"
	}
	return "mode " + Clean(s.Status.Mode)
}

func topDisks(t *text, s Screen) {
	t.WriteByte('\n')
	disks := newTable(column{name: "DISK"}, column{name: "", spare: 3}, column{name: "USED", right: true}, column{name: "HIGH", right: true},
		column{name: "AVAILABLE", right: true, spare: 2}, column{name: "FULL IN", right: true, spare: 1})
	add := func(name string, used, high int, left string, full *float64) {
		in := ""
		if full != nil {
			in = seconds(*full)
		}
		cells := []string{name, gauge(used, high, 24), fmt.Sprintf("%d%%", used), fmt.Sprintf("%d%%", high), left, in}
		if used >= high {
			disks.alarm(cells...)
		} else {
			disks.add(cells...)
		}
	}
	for _, f := range s.Status.Filesystems {
		name := f.Path
		if len(f.Names) > 0 {
			name = f.Names[0]
		}
		add(name, f.UsedPercent, f.HighPercent, size(f.AvailableBytes), f.FullInSeconds)
		if f.Inodes > 0 && f.InodesHighPercent > 0 {
			add(name+" inodes", f.InodesUsedPercent, f.InodesHighPercent, fmt.Sprint(f.InodesAvailable), f.InodesGoneInSeconds)
		}
	}
	disks.write(t, "")
}

// gauge draws how full a disk is, with its threshold.
func gauge(used, high, width int) string {
	at := min(max(high, 0), 100) * width / 100
	var b strings.Builder
	for i := range width {
		switch {
		case i == at:
			b.WriteByte('|')
		case (i+1)*100 <= used*width:
			b.WriteByte('#')
		default:
			b.WriteByte('.')
		}
	}
	return b.String()
}

func topWriters(t *text, s Screen, rows int) {
	before := make(map[string]uint64)
	for _, w := range s.Before.Writers {
		before[w.key()] = w.GrownBytes
	}
	passed := s.Now.Time.Sub(s.Before.Time).Seconds()
	rate := func(w Writer) (bytes float64, known bool) {
		was, known := before[w.key()]
		if !known || passed <= 0 || w.GrownBytes < was {
			return 0, false
		}
		return float64(w.GrownBytes-was) / passed, true
	}
	list := slices.Clone(s.Now.Writers)
	slices.SortStableFunc(list, func(a, b Writer) int {
		x, _ := rate(a)
		y, _ := rate(b)
		return cmp.Or(cmp.Compare(y, x), cmp.Compare(b.NetBytes, a.NetBytes), cmp.Compare(a.key(), b.key()))
	})
	t.WriteByte('\n')
	writers := newTable(column{name: "WRITER", tail: true}, column{name: "NOW", right: true}, column{name: "SINCE ITS START", right: true, spare: 1})
	for _, w := range list[:min(len(list), rows)] {
		now := ""
		if r, known := rate(w); known {
			now = size(uint64(r)) + "/s"
		}
		writers.add(w.name(), now, signed(w.NetBytes))
	}
	if len(list) > 0 {
		writers.write(t, "")
	}
	if s.Now.Unknown != "" {
		t.hang("Writers: ", Clean(s.Now.Unknown))
	}
}

func signed(n int64) string {
	if n < 0 {
		return "-" + size(uint64(-n))
	}
	return size(uint64(n))
}

func topImages(t *text, s Screen, rows int) {
	next := Next(s.Images)
	t.WriteByte('\n')
	images := newTable(column{name: fmt.Sprintf("NEXT TO GO, %d OF %d", len(next), len(s.Images.Images)), tail: true}, column{name: "LAST USED", right: true, spare: 1},
		column{name: "OWN", right: true}, column{name: "REASON", spare: 2})
	for _, i := range next[:min(len(next), rows)] {
		p := placed{Image: i, now: s.Images.Time}
		images.add(imageName(i.ID, i.References), p.used(), p.measured(i.Own.Bytes), i.Reason)
	}
	images.write(t, "")
}
