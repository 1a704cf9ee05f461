package image

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/tools/golden"
)

// Scenarios are histories of a node in testdata/*.txt. A block of commands
// ends with "----"; the output of Decide follows it, up to an empty line. Sizes are
// in bytes of a disk as small as the scenario needs.
//
//	policy high=80 low=75 [inodes-high= inodes-low= min-age= max-age= futile=]
//	disk capacity=1000 available=150 [inodes= inodes-available=]
//	node NAME record|blob|snapshot [BYTES] [inodes=N] [refs=A,B] [created=] [partial]
//	image ID roots=A,B [last= arrived= observed=] [used-by= wanted= keep= nominal= pinned sandbox]
//	holder KIND NAME A,B     | expired KIND NAME A,B
//	use ID WHO | idle ID     a container starts using it; nothing uses it any more
//	drop ID                  somebody else removes it
//	blocked WHY | wait 5m    | reclaiming bytes|inodes|off
//	carry-out [N]            the last plan's first N removals happen, and free what was computed
//	decide | ask free=20 [inodes=] | ask to=60 | why ID | account
//
// Times are given as an age: last=3h is three hours ago, last=-1h in the
// future, last=? not known. The hold of each plan is handed to the next.
func TestScenarios(t *testing.T) {
	golden.Scenarios(t, 5, func(t *testing.T, text string) string { return newScenario(t).run(text) })
}

type scenario struct {
	t      *testing.T
	s      Snapshot
	now    time.Time
	nodes  map[string]NodeID
	plan   Plan
	render func() string // describes the last answer
}

func newScenario(t *testing.T) *scenario {
	sc := &scenario{t: t, now: noon, nodes: make(map[string]NodeID)}
	sc.render = func() string { return sc.describe(sc.plan) }
	return sc
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
			out.WriteString(sc.render())
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
	args := make(map[string]string)
	for _, w := range words[1:] {
		key, value, _ := strings.Cut(w, "=")
		args[key] = value
	}
	switch words[0] {
	case "policy":
		sc.s.Policy = Policy{
			HighPercent: int(sc.number(args["high"])), LowPercent: int(sc.number(args["low"])),
			InodesHighPercent: int(sc.number(args["inodes-high"])), InodesLowPercent: int(sc.number(args["inodes-low"])),
			FutileShare: int(sc.number(args["futile"])),
			MinimumAge:  sc.duration(args["min-age"]), MaximumAge: sc.duration(args["max-age"]),
		}
	case "disk":
		sc.disk(args)
	case "node":
		sc.node(words[1:], args)
	case "image":
		sc.image(words[1], args)
	case "holder":
		sc.s.Graph.Holders = append(sc.s.Graph.Holders, Holder{words[1], words[2], sc.ids(words[3])})
	case "expired":
		sc.s.Graph.Expired = append(sc.s.Graph.Expired, Holder{words[1], words[2], sc.ids(words[3])})
	case "use":
		img := sc.find(words[1])
		img.UsedBy, img.LastUsed = []string{strings.Join(words[2:], " ")}, sc.now
	case "idle":
		img := sc.find(words[1])
		img.UsedBy, img.LastUsed = nil, sc.now
	case "drop":
		sc.drop(words[1])
	case "blocked":
		sc.s.Blocked = strings.Join(words[1:], " ")
	case "wait":
		sc.now = sc.now.Add(sc.duration(words[1]))
	case "unread":
		sc.find(words[1]).Unread = "stargz"
	case "read":
		sc.find(words[1]).Unread = ""
	case "reclaiming":
		sc.s.ReclaimingBytes, sc.s.ReclaimingInodes = words[1] == "bytes", words[1] == "inodes"
	case "carry-out":
		n := len(sc.plan.Remove)
		if len(words) > 1 {
			n = int(sc.number(words[1]))
		}
		for _, d := range sc.plan.Remove[:n] {
			sc.drop(d.ImageID)
			sc.s.Disk.AvailableBytes += d.FreesBytes
			sc.s.Disk.InodesAvailable += d.FreesInodes
		}
	default:
		sc.ask(words, args)
	}
}

// ask runs a query; the next output is its answer.
func (sc *scenario) ask(words []string, args map[string]string) {
	switch words[0] {
	case "decide":
		sc.plan = Decide(sc.s, sc.now)
		sc.s.Hold = sc.plan.Hold
		sc.render = func() string { return sc.describe(sc.plan) }
	case "ask":
		need := Size{uint64(sc.number(args["free"])), uint64(sc.number(args["inodes"]))}
		if to, ok := args["to"]; ok {
			need.Bytes = sc.s.Disk.BytesTo(int(sc.number(to)))
		}
		sc.render = func() string { return sc.describeAsked(Ask(sc.s, need, sc.now)) }
	case "why":
		sc.render = func() string { return sc.describeWhy(words[1]) }
	case "account":
		sc.render = func() string { return sc.describeAccount(Account(sc.s.Graph, sc.s.Images)) }
	default:
		sc.t.Fatalf("unknown command %q", words[0])
	}
}

func (sc *scenario) disk(args map[string]string) {
	for key, field := range map[string]*uint64{
		"capacity": &sc.s.Disk.CapacityBytes, "available": &sc.s.Disk.AvailableBytes,
		"inodes": &sc.s.Disk.Inodes, "inodes-available": &sc.s.Disk.InodesAvailable,
	} {
		if value, ok := args[key]; ok {
			*field = uint64(sc.number(value))
		}
	}
}

func (sc *scenario) node(words []string, args map[string]string) {
	kinds := map[string]NodeKind{"record": NodeRecord, "blob": NodeBlob, "snapshot": NodeSnapshot}
	n := Node{Kind: kinds[words[1]], Inodes: uint64(sc.number(args["inodes"]))}
	if len(words) > 2 && !strings.Contains(words[2], "=") {
		n.Bytes = uint64(sc.number(words[2]))
	}
	sc.nodes[words[0]] = NodeID(len(sc.s.Graph.Nodes)) // before its refs: it may name itself
	n.Refs = sc.ids(args["refs"])
	_, n.Partial = args["partial"]
	if _, ok := args["created"]; ok {
		n.Created = TimestampOf(sc.ago(args, "created"))
	}
	sc.s.Graph.Nodes = append(sc.s.Graph.Nodes, n)
}

func (sc *scenario) image(id string, args map[string]string) {
	img := Image{ID: id, Roots: sc.ids(args["roots"]), Keep: args["keep"], NominalBytes: uint64(sc.number(args["nominal"]))}
	img.LastUsed, img.Arrived, img.Observed = sc.ago(args, "last"), sc.ago(args, "arrived"), sc.ago(args, "observed")
	_, img.Pinned = args["pinned"]
	_, img.Sandbox = args["sandbox"]
	if by, ok := args["used-by"]; ok {
		img.UsedBy = strings.Split(by, ",")
	}
	if by, ok := args["wanted"]; ok {
		img.Wanted = strings.Split(by, ",")
	}
	sc.s.Images = append(sc.s.Images, img)
}

func (sc *scenario) ago(args map[string]string, key string) time.Time {
	value, ok := args[key]
	switch {
	case value == "?":
		return time.Time{}
	case !ok:
		return noon.Add(-24 * time.Hour)
	}
	return sc.now.Add(-sc.duration(value))
}

func (sc *scenario) find(id string) *Image {
	i := slices.IndexFunc(sc.s.Images, func(img Image) bool { return img.ID == id })
	if i < 0 {
		sc.t.Fatalf("no image %q", id)
	}
	return &sc.s.Images[i]
}

func (sc *scenario) drop(id string) {
	sc.find(id)
	// What only this image held is gone from the graph, too.
	o := oracle{sc.s, sc.now}
	_, _, _, nodes := o.freed([]string{id})
	for n, freed := range nodes {
		if freed {
			sc.s.Graph.Nodes[n].Bytes, sc.s.Graph.Nodes[n].Inodes = 0, 0
		}
	}
	sc.s.Images = slices.DeleteFunc(sc.s.Images, func(img Image) bool { return img.ID == id })
}

func (sc *scenario) ids(names string) []NodeID {
	var list []NodeID
	for name := range strings.SplitSeq(names, ",") {
		if name == "" {
			continue
		}
		id, ok := sc.nodes[name]
		if !ok {
			sc.t.Fatalf("no node %q among %v", name, slices.Sorted(maps.Keys(sc.nodes)))
		}
		list = append(list, id)
	}
	return list
}

func (sc *scenario) number(s string) int64 {
	if s == "" {
		return 0
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		sc.t.Fatal(err)
	}
	return n
}

func (sc *scenario) duration(s string) time.Duration {
	if s == "" {
		return 0
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		sc.t.Fatal(err)
	}
	return d
}

// describe prints a plan.
func (sc *scenario) describe(p Plan) string {
	var out strings.Builder
	fmt.Fprintf(&out, "used %d%%", sc.s.Disk.UsedPercent())
	if sc.s.Disk.Inodes > 0 {
		fmt.Fprintf(&out, ", inodes %d%%", sc.s.Disk.InodesUsedPercent())
	}
	fmt.Fprintf(&out, "; need %d bytes, %d inodes\n", p.NeedBytes, p.NeedInodes)
	for _, d := range p.Remove {
		layer := ""
		if d.FreesLayer {
			layer = " layer"
		}
		fmt.Fprintf(&out, "remove %s %s %d bytes, %d inodes%s: %s\n", d.ImageID, d.Reason, d.FreesBytes, d.FreesInodes, layer, d.Detail)
	}
	for _, d := range p.Keep {
		fmt.Fprintf(&out, "keep   %s %s: %s\n", d.ImageID, d.Reason, d.Detail)
	}
	if !p.Next.IsZero() {
		fmt.Fprintf(&out, "next in %v\n", p.Next.Sub(sc.now))
	}
	if h := p.Hold; h != nil {
		fmt.Fprintf(&out, "hold for %v, bytes %v, inodes %v, from %d bytes, images %v\n", sc.now.Sub(h.Since), h.Bytes, h.Inodes, h.AvailableBytes, h.Images)
		for _, line := range h.Space {
			fmt.Fprintf(&out, "  %s: %d bytes, %d inodes, %d images\n", line.By, line.Bytes, line.Inodes, line.Images)
		}
	}
	return out.String()
}
