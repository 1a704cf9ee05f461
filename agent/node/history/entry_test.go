package history

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/ebb-agent/ebb/agent/node/page"
)

func TestClip(t *testing.T) {
	for _, c := range []struct {
		text string
		most int
		want string
	}{
		{"", 0, ""}, {"a", 0, ""}, {"abcd", 4, "abcd"}, {"abcde", 4, "a…"}, {"abcde", 3, "…"}, {"abcde", 2, ""},
		{"aéb", 4, "aéb"}, {"aéééé", 5, "a…"}, {"aéééé", 6, "aé…"}, {"日本語日本語", 10, "日本…"},
	} {
		if got := clip(c.text, c.most); got != c.want {
			t.Errorf("%q to %d bytes is %q, want %q", c.text, c.most, got, c.want)
		}
	}
}

// However long and strange its texts and times are, an entry is bounded and can be read back.
func TestEntryIsBounded(t *testing.T) {
	for name, text := range map[string]string{
		"long": strings.Repeat("x", 1<<16), "runes": strings.Repeat("日", 1<<12), "control": strings.Repeat("\x01", 1<<12),
		"not UTF-8": strings.Repeat("\xff", 1<<12), "markup": strings.Repeat("<&>", 1<<12), "short": "a",
	} {
		far := time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC)
		b := encode(page.HistoryEntry{
			Time: t0, Wall: far, Ended: &far, LastUsed: &t0, Kind: page.KindImage, Outcome: page.OutcomeFailed,
			ID: text, Names: slicesOf(text, 20), Rule: text, Reason: text, Detail: text, Error: text, UsedBy: text, By: text,
		})
		e, err := decode(b)
		if err != nil || len(b) > entryMost {
			t.Errorf("%s: %d bytes, %v", name, len(b), err)
			continue
		}
		if len(e.Names) != namesMost || !e.Time.Equal(t0) || !e.Wall.IsZero() || e.Ended != nil || !e.LastUsed.Equal(t0) {
			t.Errorf("%s: %+v", name, e)
		}
		if name == "long" && (!strings.HasSuffix(e.Names[7], "x…") || len(e.Names[7]) < 200) {
			t.Errorf("a long name is %q", e.Names[7])
		}
	}
}

func slicesOf(text string, n int) (list []string) {
	for range n {
		list = append(list, text)
	}
	return list
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"kind":"image","outcome":"removed","names":["a"],"freedBytes":7}`))
	f.Add([]byte(`{"kind":"hold","outcome":"refused","time":"2026-03-01T12:00:00Z","lastUsed":null}`))
	f.Add([]byte("{"))
	f.Add(encode(page.HistoryEntry{Kind: "x", Outcome: "y", Detail: strings.Repeat("\x02", 500), Names: slicesOf("é<\x00", 9)}))
	f.Fuzz(func(t *testing.T, b []byte) {
		age(b, t0, t0)
		e, err := decode(b)
		if err != nil {
			return
		}
		if len(b) > entryMost || len(e.Names) > namesMost || !utf8.ValidString(e.Detail) || len(e.Detail) > textMost {
			t.Errorf("not bounded: %+v", e)
		}
		again := encode(e)
		same, err := decode(again)
		if err != nil || len(again) > entryMost {
			t.Fatalf("%d bytes, %v", len(again), err)
		}
		if diff := cmp.Diff(same, bounded(same, textMost)); diff != "" {
			t.Error(diff)
		}
	})
}

// A broken clock makes nothing old that the other one knows to be new.
func TestAge(t *testing.T) {
	for name, c := range map[string]struct {
		now, wall time.Time
		want      time.Duration
	}{
		"as written": {t0, t0, 0},
		"later":      {t0.Add(time.Hour), t0.Add(2 * time.Hour), time.Hour},
		"wall ahead": {t0.Add(time.Hour), t0.AddDate(50, 0, 0), time.Hour},
		"wall back":  {t0.Add(time.Hour), t0.Add(-time.Hour), -time.Hour},
		"ebb ahead":  {t0.AddDate(50, 0, 0), t0.Add(time.Minute), time.Minute},
	} {
		if got := age(encode(page.HistoryEntry{Time: t0, Wall: t0}), c.now, c.wall); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	if got := age(encode(page.HistoryEntry{Time: t0}), t0.Add(time.Hour), t0); got != time.Hour {
		t.Errorf("without a wall clock: %v", got)
	}
	for _, b := range []string{"", "{}", "{"} {
		if age([]byte(b), t0, t0) < 1<<62 {
			t.Errorf("%q is not old", b)
		}
	}
}
