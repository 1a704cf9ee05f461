package oracle

import (
	"errors"
	"testing"
	"time"
)

func at(s float64) time.Time {
	return time.Unix(1e9, 0).Add(time.Duration(s * float64(time.Second)))
}

func made() *Oracle {
	o := New(Config{High: 80, Low: 60, Settled: 2 * time.Second, MinimumAge: 3 * time.Second, Late: 2 * time.Second, LastUse: time.Second, Heard: time.Second, Noticed: 2 * time.Second, PodsGone: 5 * time.Second, Retry: 10 * time.Second, LinesPerMinute: 3})
	o.Came("a", 30, at(0), at(0))
	return o
}

func removal(s float64) Removal {
	return Removal{Image: "a", Begun: at(s), At: at(s + 0.1), Capacity: 1000 << 20, Available: 400 << 20, Freed: 100 << 20, Exact: true}
}

// Each story has what the oracle has to say of it: nothing, or one accusation.
func TestJudges(t *testing.T) {
	for name, c := range map[string]struct {
		story func(*Oracle)
		want  string
	}{
		"it may go":              {func(o *Oracle) { o.Removed(removal(10)) }, ""},
		"used":                   {func(o *Oracle) { o.Protect("a", "c1 runs", at(5)); o.Removed(removal(10)) }, WrongRemoval},
		"used at the moment":     {func(o *Oracle) { o.Protect("a", "c1 runs", at(9)); o.Removed(removal(10)) }, ""},
		"used no more":           {func(o *Oracle) { o.Protect("a", "c", at(5)); o.Release("a", "c", at(9)); o.Removed(removal(10)) }, ""},
		"a pod's container goes": {func(o *Oracle) { o.PodStarted("p", "a", at(5)); o.ContainerRemoved("p", at(9)) }, WrongRemoval},
		"an unknown pod's":       {func(o *Oracle) { o.ContainerRemoved("p", at(9)) }, ""},
		"an ended pod's goes": {func(o *Oracle) {
			o.PodStarted("p", "a", at(5))
			o.PodEnded("p", at(8))
			o.ContainerRemoved("p", at(9))
			o.Removed(removal(10))
		}, ""},
		"its image goes first": {func(o *Oracle) { o.PodStarted("p", "a", at(5)); o.PodEnded("p", at(8)); o.Removed(removal(10)) }, WrongRemoval},
		"gone unlogged": {func(o *Oracle) {
			o.PodStarted("p", "a", at(5))
			o.PodEnded("p", at(8))
			o.PodLeft("p", false, nil, at(9))
			o.Removed(removal(10))
		}, ""},
		"a sandbox stays": {func(o *Oracle) {
			o.PodStarted("p", "a", at(5))
			o.PodEnded("p", at(8))
			o.PodLeft("p", false, []string{"s"}, at(13.1))
			o.PodLeft("p", false, []string{"s"}, at(14))
		}, StaysTooLong},
		"it stays for a while": {func(o *Oracle) {
			o.PodStarted("p", "a", at(5))
			o.PodEnded("p", at(8))
			o.PodLeft("p", true, []string{"c", "s"}, at(12.9))
		}, ""},
		"it stays in an outage": {func(o *Oracle) {
			o.PodStarted("p", "a", at(5))
			o.PodEnded("p", at(8))
			end := o.OutageBegins(at(9))
			o.PodLeft("p", true, []string{"c"}, at(15))
			end(at(16))
			o.PodLeft("p", true, []string{"c"}, at(20))
		}, ""},
		"it stays after an outage": {func(o *Oracle) {
			o.PodStarted("p", "a", at(5))
			o.PodEnded("p", at(8))
			o.OutageBegins(at(9))(at(16)) // 8 s after its end, so 5 + 10 + 8 s are left
			o.PodLeft("p", true, []string{"c"}, at(38.9))
		}, ""},
		"it stays long after an outage": {func(o *Oracle) {
			o.PodStarted("p", "a", at(5))
			o.PodEnded("p", at(8))
			o.OutageBegins(at(9))(at(16))
			o.PodLeft("p", true, []string{"c"}, at(39.1))
		}, StaysTooLong},
		"a running pod is broken": {func(o *Oracle) { o.PodStarted("p", "a", at(5)); o.PodRuns("p", false, []string{"s"}, at(9)) }, WrongRemoval},
		"a running pod is whole":  {func(o *Oracle) { o.PodStarted("p", "a", at(5)); o.PodRuns("p", true, []string{"s", "c"}, at(9)) }, ""},
		"one of two ended": {func(o *Oracle) {
			o.Protect("a", "c", at(5))
			o.Protect("a", "d", at(5))
			o.Release("a", "c", at(9))
			o.Removed(removal(10))
		}, WrongRemoval},
		"gone in silence":        {func(o *Oracle) { o.Protect("a", "c", at(5)); o.Present(nil, at(10)) }, WrongRemoval},
		"an outage is no excuse": {func(o *Oracle) { o.Protect("a", "c", at(5)); o.OutageBegins(at(6)); o.Present(nil, at(10)) }, WrongRemoval},
		"protected twice":        {func(o *Oracle) { o.Protect("a", "c", at(5)); o.Removed(removal(10)); o.Present(nil, at(11)) }, WrongRemoval},
		"dropped":                {func(o *Oracle) { o.Protect("a", "c", at(5)); o.Dropped("a"); o.Present(nil, at(10)) }, ""},
		"listed":                 {func(o *Oracle) { o.Protect("a", "c", at(5)); o.Present([]string{"a"}, at(10)) }, ""},
		"came again, late line":  {func(o *Oracle) { o.Came("a", 30, at(10.5), at(11)); o.Protect("a", "c", at(5)); o.Removed(removal(10)) }, ""},
		"low already":            {func(o *Oracle) { r := removal(10); r.Available = 600 << 20; o.Removed(r) }, BeyondNeed},
		"low, but inexact":       {func(o *Oracle) { r := removal(10); r.Available, r.Exact = 600<<20, false; o.Removed(r) }, ""},
		"just to the threshold":  {func(o *Oracle) { r := removal(10); r.Available = 450 << 20; o.Removed(r) }, ""},
		"others delete a little": {func(o *Oracle) { r := removal(10); r.Available = 501 << 20; o.Removed(r) }, ""},
		"late":                   {func(o *Oracle) { o.Disk(81, at(10)); o.Disk(81, at(12.5)) }, TooLate},
		"in time":                {func(o *Oracle) { o.Disk(81, at(10)); o.Disk(81, at(11.9)); o.Disk(79, at(12)); o.Disk(81, at(13)) }, ""},
		"nothing could go":       {func(o *Oracle) { o.Protect("a", "c", at(5)); o.Disk(81, at(10)); o.Disk(81, at(20)) }, ""},
		"too young":              {func(o *Oracle) { o.Disk(81, at(0)); o.Disk(81, at(4.9)) }, ""},
		"old enough for long":    {func(o *Oracle) { o.Disk(81, at(0)); o.Disk(81, at(5.1)) }, TooLate},
		"not enough could go":    {func(o *Oracle) { o.Disk(91, at(10)); o.Disk(91, at(20)) }, ""},
		"enough now":             {func(o *Oracle) { o.Disk(91, at(10)); o.Disk(91, at(20)); o.Disk(85, at(20.1)); o.Disk(85, at(21.9)) }, ""},
		"enough for long":        {func(o *Oracle) { o.Disk(91, at(10)); o.Disk(91, at(20)); o.Disk(85, at(20.1)); o.Disk(85, at(22.1)) }, TooLate},
		"late in an outage": {func(o *Oracle) {
			o.Disk(81, at(10))
			end := o.OutageBegins(at(4))
			o.Disk(81, at(20))
			end(at(20))
			o.Disk(81, at(21))
			o.Disk(81, at(21.9))
		}, ""},
		"late after an outage": {func(o *Oracle) { o.OutageBegins(at(15))(at(20)); o.Disk(81, at(20)); o.Disk(81, at(22.1)) }, TooLate},
		"late once":            {func(o *Oracle) { o.Disk(81, at(10)); o.Disk(81, at(13)); o.Disk(81, at(14)) }, TooLate},
		"last use is right":    {func(o *Oracle) { o.Used("a", at(5), at(6)); o.LastUse("a", at(5.5), at(9), "") }, ""},
		"last use is early":    {func(o *Oracle) { o.Used("a", at(5), at(6)); o.LastUse("a", at(3), at(9), "") }, WrongLastUse},
		"last use is late":     {func(o *Oracle) { o.Used("a", at(5), at(6)); o.LastUse("a", at(7.5), at(9), "") }, WrongLastUse},
		"last use is wrong once": {func(o *Oracle) {
			o.Used("a", at(5), at(6))
			o.LastUse("a", at(3), at(9), "")
			o.LastUse("a", at(3), at(10), "")
		}, WrongLastUse},
		"came again, unused": {func(o *Oracle) {
			o.Used("a", at(5), at(6))
			o.Came("a", 30, at(8.5), at(9))
			o.Removed(removal(8)) // the line is read after it came again
			o.LastUse("a", time.Time{}, at(12), "")
		}, ""},
		"pulled again, which is a use": {func(o *Oracle) {
			o.Used("a", at(5), at(6))
			o.Came("a", 30, at(8.5), at(9))
			o.LastUse("a", at(8.9), at(12), "")
		}, ""},
		"pulled again, which was not seen": {func(o *Oracle) {
			o.Used("a", at(5), at(6))
			o.Came("a", 30, at(8.5), at(9))
			o.LastUse("a", at(6), at(12), "")
		}, WrongLastUse},
		"pulled again since": {func(o *Oracle) {
			o.Used("a", at(5), at(6))
			o.Came("a", 30, at(8.5), at(9))
			o.LastUse("a", time.Time{}, at(12), "")
		}, ""},
		"last use is unknown": {func(o *Oracle) { o.Used("a", at(5), at(6)); o.LastUse("a", time.Time{}, at(9), "") }, WrongLastUse},
		"not yet heard":       {func(o *Oracle) { o.Used("a", at(5), at(6)); o.LastUse("a", time.Time{}, at(6.5), "") }, ""},
		"tried, and not seen": {func(o *Oracle) { o.Used("a", at(5), at(6)); o.Tried("a", at(8)); o.LastUse("a", at(5.5), at(10), "") }, ""},
		"tried, and seen":     {func(o *Oracle) { o.Used("a", at(5), at(6)); o.Tried("a", at(8)); o.LastUse("a", at(8), at(10), "") }, ""},
		"tried for the first": {func(o *Oracle) { o.Tried("a", at(8)); o.LastUse("a", time.Time{}, at(10), "") }, ""},
		"just come":           {func(o *Oracle) { o.Used("a", at(0.1), at(0.2)); o.LastUse("a", time.Time{}, at(1.9), "") }, ""},
		"after an outage": {func(o *Oracle) {
			o.Used("a", at(5), at(6))
			o.OutageBegins(at(8))(at(9))
			o.LastUse("a", at(3), at(9.5), "")
		}, ""},
		"hidden by an outage": {func(o *Oracle) {
			end := o.OutageBegins(at(4))
			o.Used("a", at(5), at(6))
			end(at(9))
			o.LastUse("a", at(9.5), at(11), "")
		}, ""},
		"just before an outage": {func(o *Oracle) {
			o.Used("a", at(5), at(6))
			o.OutageBegins(at(6.5))(at(9))
			o.LastUse("a", at(9), at(11), "")
		}, ""},
		"long before an outage": {func(o *Oracle) {
			o.Used("a", at(5), at(6))
			o.OutageBegins(at(7.5))(at(9))
			o.LastUse("a", at(9), at(11), "")
		}, WrongLastUse},
		"just copied before an outage": {func(o *Oracle) {
			o.Copied("a", at(4.9))
			o.Used("a", at(5), at(5.2))
			o.OutageBegins(at(6.5))(at(9))
			o.LastUse("a", at(9), at(11), "")
		}, ""},
		"copied long before an outage": {func(o *Oracle) {
			o.Copied("a", at(4))
			o.Used("a", at(5), at(5.2))
			o.OutageBegins(at(6.5))(at(9))
			o.LastUse("a", at(9), at(11), "")
		}, WrongLastUse},
		"copied, used and gone before an outage": {func(o *Oracle) {
			o.Copied("a", at(4.9))
			o.Used("a", at(5), at(5.2))
			o.OutageBegins(at(6.5))(at(9))
			o.LastUse("a", at(3), at(11), "")
		}, ""},
		"used before it was copied": {func(o *Oracle) {
			o.Used("a", at(5), at(5.2))
			o.Copied("a", at(5.5))
			o.OutageBegins(at(6))(at(9))
			o.LastUse("a", at(3), at(11), "")
		}, WrongLastUse},
		"hidden, and too late": {func(o *Oracle) {
			end := o.OutageBegins(at(4))
			o.Used("a", at(5), at(6))
			end(at(9))
			o.LastUse("a", at(10.5), at(11), "")
		}, WrongLastUse},
		"hidden, and early": {func(o *Oracle) {
			end := o.OutageBegins(at(4))
			o.Used("a", at(5), at(6))
			end(at(9))
			o.LastUse("a", at(3), at(11), "")
		}, WrongLastUse},
		"in use, and its names were away": {func(o *Oracle) {
			o.Used("a", at(5), at(6))
			o.Present(nil, at(7))
			o.Protect("a", "c", at(7.1))
			o.Present([]string{"a"}, at(7.2))
			o.Came("a", 30, at(7.5), at(8))
			o.LastUse("a", at(11), at(11), "")
		}, ""},
		"in use": {func(o *Oracle) {
			o.Used("a", at(5), at(6))
			o.Protect("a", "c", at(7))
			o.LastUse("a", at(9), at(9), "")
		}, ""},
		"few lines":          {func(o *Oracle) { lines(o, 0, 1, 2, 61, 62, 63) }, ""},
		"many lines":         {func(o *Oracle) { lines(o, 0, 1, 2, 59) }, TooManyLines},
		"lines of an outage": {func(o *Oracle) { end := o.OutageBegins(at(4)); lines(o, 0, 1, 2, 3, 4); end(at(5)); lines(o, 6) }, ""},
		"cannot run":         {func(o *Oracle) { o.CannotRun("a", errors.New("no"), at(1)) }, CannotRun},
		"grows":              {func(o *Oracle) { o.Exceeds("threads", 99, 64, at(1)) }, Unbounded},
	} {
		t.Run(name, func(t *testing.T) {
			o := made()
			c.story(o)
			got := o.Violations()
			if c.want == "" && len(got) > 0 || c.want != "" && (len(got) != 1 || got[0].What != c.want) {
				t.Errorf("it reports %v, want %q", got, c.want)
			}
		})
	}
}

func lines(o *Oracle, seconds ...float64) {
	for _, s := range seconds {
		o.Line("x", at(s))
	}
}
