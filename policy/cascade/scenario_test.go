package cascade

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/tools/golden"
)

// Scenarios are protocols of what came in and what came out, in testdata/*.txt.
// A block of inputs ends with "----"; what Ready gives, and what was asked to be
// explained, follows it, up to an empty line.
//
//	type v1 Pod [cluster] [aggregated] [excluded] [unwatched]
//	listing Pod | synced Pod | unreadable Pod | went Pod      ("apps/v1:Set" names a version)
//	see Pod a/web uid=p rv=5 [owner=Set/s:UID]... [finalizer=orphan]... [terminating]
//	                          owner=!Set/... has blockOwnerDeletion
//	deleted Pod a/web uid=p rv=9                              a DELETED event
//	restored                                                  etcd was restored
//	release | exclude NAMESPACE...                            what was withheld; which namespaces are left alone
//	exists Pod a/web uid=p rv=5 ... | absent Pod a/web | unknown Pod a/web | busy Pod a/web
//	                                                          the live read's answer
//	patched Pod a/p uid=p rv=8 ...                            done, and what the response showed
//	done|failed|conflict|gone|forbidden|throttled|withheld|deferred Pod a/web             how the action on it went
//	recall UID...                                             what a durable journal of orphaned owners has
//	sweep                                                     every type has reported all up to a second ago
//	slow UID 10s 3                                            no deletions of that root for 10s, and 3 at a time then
//	hold on|off                                               no deletions at all
//	wait 1s
//	take 3                                                    Ready gives three at most
//	explain Pod a/web uid=p
//
// Types named before are of group version v1 unless given otherwise.
func TestScenarios(t *testing.T) {
	golden.Scenarios(t, 10, func(t *testing.T, text string) string { return newScenario(t).run(text) })
}

// A caller takes several answers at one moment, and a read may have been sent a little after it.
func TestReadSentAfterNow(t *testing.T) {
	sc := newScenario(t)
	sc.run(`type v1 Pod
type apps/v1 Set
synced Pod Set
see Set a/s uid=s rv=1
see Pod a/p uid=p rv=2 owner=!Set/s:s
see Set a/s uid=s rv=5 finalizer=foregroundDeletion terminating
----
`)
	words := strings.Fields("Set a/s uid=s rv=5 finalizer=foregroundDeletion terminating")
	sc.c.Answered(sc.now, sc.now.Add(time.Millisecond), sc.id(words), gc.Answer{State: gc.Exists, Object: sc.object(words)})
	if got := sc.c.Ready(sc.now, 10); len(got) != 1 || got[0].Verb != gc.Delete {
		t.Errorf("got %v, want the deletion of the pod; next: %v", got, sc.c.Next())
	}
}

type scenario struct {
	t      *testing.T
	c      *Collector
	now    time.Time
	group  map[string]string // kind: apiVersion
	flight map[string]uint64 // "Pod a/web": the action on it
	out    strings.Builder
	take   int
}

func newScenario(t *testing.T) *scenario {
	return &scenario{t: t, c: New(Config{}), now: noon, group: map[string]string{}, flight: map[string]uint64{}, take: 100}
}

func (sc *scenario) run(text string) string {
	var out strings.Builder
	skipping := false
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if skipping {
			skipping = line != ""
		}
		if skipping {
			continue
		}
		fmt.Fprintln(&out, line)
		if line == "----" {
			sc.ready()
			out.WriteString(sc.out.String())
			sc.out.Reset()
			skipping = true
			continue
		}
		if words := strings.Fields(line); len(words) > 0 && !strings.HasPrefix(line, "#") {
			sc.do(words)
		}
	}
	return out.String()
}

func (sc *scenario) do(words []string) {
	rest := words[1:]
	switch words[0] {
	case "type":
		sc.group[rest[1]] = rest[0]
		flags := strings.Join(rest[2:], " ")
		sc.c.TypeCame(sc.now, gc.Type{
			APIVersion: rest[0], Kind: rest[1], Resource: strings.ToLower(rest[1]) + "s",
			Namespaced: !strings.Contains(flags, "cluster"), Aggregated: strings.Contains(flags, "aggregated"),
			Excluded: strings.Contains(flags, "excluded"), Unwatched: strings.Contains(flags, "unwatched"),
		})
	case "listing", "synced", "unreadable", "went":
		f := map[string]func(time.Time, string, string){
			"listing": sc.c.Listing, "synced": sc.c.Synced, "unreadable": sc.c.Unreadable, "went": sc.c.TypeWent,
		}[words[0]]
		for _, name := range rest {
			apiVersion, kind := sc.kind(name)
			f(sc.now, apiVersion, kind)
		}
	case "see":
		sc.c.Observe(sc.now, sc.object(rest))
	case "deleted":
		sc.c.Forget(sc.now, sc.object(rest))
	case "restored":
		sc.c.Restored(sc.now)
	case "away":
		sc.c.Away(sc.now)
	case "release":
		sc.c.Release(sc.now)
	case "exclude":
		sc.c.ExcludeNamespaces(sc.now, rest)
	case "exists":
		sc.c.Answered(sc.now, sc.now, sc.id(rest), gc.Answer{State: gc.Exists, Object: sc.object(rest)})
	case "absent":
		sc.c.Answered(sc.now, sc.now, sc.id(rest), gc.Answer{State: gc.Absent})
	case "patched":
		id := sc.id(rest)
		sc.c.Patched(sc.now, id, sc.object(rest))
		sc.c.Finished(sc.now, id, gc.Done)
	case "busy":
		sc.c.Answered(sc.now, sc.now, sc.id(rest), gc.Answer{State: gc.TooBusy})
	case "unknown":
		sc.c.Answered(sc.now, sc.now, sc.id(rest), gc.Answer{})
	case "slow":
		d, err := time.ParseDuration(rest[1])
		most, err2 := strconv.Atoi(rest[2])
		if err != nil || err2 != nil {
			sc.t.Fatal(err, err2)
		}
		sc.c.Slow(sc.now, rest[0], sc.now.Add(d), most)
	case "hold":
		sc.c.Hold(sc.now, rest[0] == "on")
	case "recall":
		for _, id := range rest {
			sc.c.Recall(sc.now, []Entry{{UID: id, Recorded: sc.now}})
		}
	case "sweep":
		fmt.Fprintf(&sc.out, "forgotten %v\n", sc.c.Swept(sc.now, sc.now.Add(-time.Second)))
	case "wait":
		d, err := time.ParseDuration(rest[0])
		if err != nil {
			sc.t.Fatal(err)
		}
		sc.now = sc.now.Add(d)
	case "take":
		fmt.Sscan(rest[0], &sc.take)
	case "explain":
		sc.explain(rest)
	default:
		for r := gc.Failed; r <= gc.Deferred; r++ {
			if r.String() == words[0] {
				sc.c.Finished(sc.now, sc.id(rest), r)
				return
			}
		}
		sc.t.Fatalf("%q: unknown command", words)
	}
}

func (sc *scenario) kind(name string) (apiVersion, kind string) {
	if apiVersion, kind, ok := strings.Cut(name, ":"); ok {
		return apiVersion, kind
	}
	if sc.group[name] == "" {
		return "v1", name
	}
	return sc.group[name], name
}

func (sc *scenario) id(words []string) uint64 {
	what := words[0] + " " + words[1]
	id := sc.flight[what]
	if id == 0 {
		sc.t.Fatalf("nothing is on its way for %s", what)
	}
	delete(sc.flight, what)
	return id
}

func (sc *scenario) object(words []string) (o gc.Object) {
	o.APIVersion, o.Kind = sc.kind(words[0])
	o.Namespace, o.Name, _ = strings.Cut(words[1], "/")
	for _, w := range words[2:] {
		key, value, _ := strings.Cut(w, "=")
		switch key {
		case "uid":
			o.UID = value
		case "rv":
			o.ResourceVersion = value
		case "terminating":
			o.Terminating = true
		case "finalizer":
			o.Finalizers = append(o.Finalizers, value)
		case "owner":
			var r gc.Reference
			value, r.Block = strings.TrimPrefix(value, "!"), strings.HasPrefix(value, "!")
			at := strings.LastIndex(value, ":")
			r.UID = value[at+1:]
			slash := strings.LastIndex(value[:at], "/")
			r.APIVersion, r.Kind = sc.kind(value[:slash])
			r.Name = value[slash+1 : at]
			o.Owners = append(o.Owners, r)
		default:
			sc.t.Fatalf("%q", w)
		}
	}
	return o
}

func (sc *scenario) ready() {
	for _, a := range sc.c.Ready(sc.now, sc.take) {
		what := sc.short(a.Object.APIVersion, a.Object.Kind) + " " + a.Object.Namespace + "/" + a.Object.Name
		if a.ID != 0 {
			sc.flight[what] = a.ID
		}
		fmt.Fprintf(&sc.out, "%s %s uid=%s", a.Verb, what, a.Object.UID)
		if a.Policy != "" {
			fmt.Fprintf(&sc.out, " %s rv=%s", a.Policy, a.ResourceVersion)
		}
		for _, r := range a.Refs {
			fmt.Fprintf(&sc.out, " [%d]=%s", r.Index, r.UID)
		}
		if a.Finalizer != "" {
			fmt.Fprintf(&sc.out, " [%d]=%s", a.Index, a.Finalizer)
			if a.Finalizer == gc.OrphanFinalizer {
				fmt.Fprintf(&sc.out, " rv=%s", a.ResourceVersion)
			}
		}
		if a.Verb == gc.Delete && a.Root != a.Owner {
			fmt.Fprintf(&sc.out, " root=%s/%s", a.Root.Kind, a.Root.UID)
		}
		fmt.Fprintf(&sc.out, " (%s)\n", a.Reason)
	}
	if next := sc.c.Next(); !next.IsZero() {
		fmt.Fprintf(&sc.out, "next in %v\n", next.Sub(sc.now))
	}
}

func (sc *scenario) short(apiVersion, kind string) string {
	if v, _ := sc.kind(kind); v == apiVersion {
		return kind
	}
	return apiVersion + ":" + kind
}

func (sc *scenario) explain(words []string) {
	o := sc.object(words)
	x := sc.c.Explain(gc.Coordinates{APIVersion: o.APIVersion, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name, UID: o.UID})
	fmt.Fprintf(&sc.out, "%s %s: %s", words[0], words[1], x.Reason)
	for _, r := range x.Owners {
		fmt.Fprintf(&sc.out, " %s/%s=%s", r.Kind, r.Name, r.Judgement)
	}
	for _, d := range x.Waiting {
		fmt.Fprintf(&sc.out, " waits-for=%s/%s", d.Kind, d.Name)
	}
	if x.Reason == KeptSlowed || x.Reason == KeptHeld {
		fmt.Fprintf(&sc.out, " root=%s/%s", x.Root.Kind, x.Root.Name)
	}
	if x.Reason == KeptSlowed {
		fmt.Fprintf(&sc.out, " until=+%v", x.Retry.Sub(sc.now))
	}
	fmt.Fprintln(&sc.out)
}
