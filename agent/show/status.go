package show

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/ebb-agent/ebb/agent/node/page"
)

// Controller is what the API server shows about ebb-controller. The controller itself is not asked.
type Controller struct {
	Pods    int       `json:"pods"`
	Ready   int       `json:"ready"`
	Version string    `json:"version,omitempty"` // of the leader's pod
	Leader  string    `json:"leader,omitempty"`  // the holder of its Lease
	Renewed time.Time `json:"renewed,omitzero"`
	Halted  string    `json:"halted,omitempty"`  // why it deletes nothing, as the leader left it on the Lease
	Mode    string    `json:"mode,omitempty"`    // enforce, observe or paused: its configuration, as the leader left it on the Lease
	Unknown []string  `json:"unknown,omitempty"` // what could not be read, and why
}

// StatusReport is the answer of ebb status.
type StatusReport struct {
	Time       time.Time // by the desk's clock: for ages of objects of the API server
	Nodes      []Node[page.Status]
	Controller *Controller // nil: not looked for
	Others     *Others     // nil: not looked for
}

// Others is who collects garbage beside ebb.
type Others struct {
	Kubelets        map[string]int `json:"kubelets"`                  // nodes by when their kubelets remove images: "from 85%" of the disk, "by age", "never"
	KubeletsUnknown map[string]int `json:"kubeletsUnknown,omitempty"` // nodes by the reason why it is not known
	Managers        []string       `json:"managers,omitempty"`        // kube-controller-managers that collect
	ManagersOff     []string       `json:"managersOff,omitempty"`     // those that do not, and why
	ManagersAtRisk  []string       `json:"managersAtRisk,omitempty"`  // those of ManagersOff that a storage version migration can end
}

// Findings counts the nodes that are not ready, paused or degraded, a controller that is halted or of
// which no pod is ready, and the kube-controller-managers at risk.
func (r StatusReport) Findings() (n int) {
	if r.Others != nil {
		n = len(r.Others.ManagersAtRisk)
	}
	if c := r.Controller; c != nil && (c.Halted != "" || c.Pods > 0 && c.Ready == 0) {
		n++
	}
	for _, node := range answered(r.Nodes) {
		if s := node.Page; !s.Ready || s.Paused != nil || len(s.Degraded) > 0 {
			n++
		}
	}
	return n
}

// Ready counts the agents that are ready.
func (r StatusReport) Ready() (n int) {
	for _, node := range answered(r.Nodes) {
		if node.Page.Ready {
			n++
		}
	}
	return n
}

// Document is the report for scripts.
func (r StatusReport) Document() (any, error) {
	d, err := NewDocument(r.Nodes)
	return struct {
		Document
		Controller *Controller `json:"controller,omitempty"`
		Others     *Others     `json:"otherCollectors,omitempty"`
	}{d, r.Controller, r.Others}, err
}

// Status shows a report.
func Status(w io.Writer, v View, r StatusReport) error {
	t := &text{View: v}
	r.agents(t)
	if r.Controller != nil {
		t.hang("Controller   ", r.Controller.line(r.Time))
	}
	if r.Others != nil {
		if len(r.Nodes) > 0 {
			t.hang("Kubelets     ", r.Others.kubelets())
		}
		t.hang("Manager      ", r.Others.managers())
		if risk := r.Others.ManagersAtRisk; len(risk) > 0 {
			t.hang("At risk      ", names(risk)+": storagemigration.k8s.io is served, and a storage version migration makes kube-controller-manager 1.36 panic "+
				"while its garbage collector is off; add -storage-version-migrator-controller to --controllers")
		}
	}
	findings := newTable(column{name: "NODE"}, column{name: "STATE"}, column{name: "WHY", wrap: true})
	for _, n := range answered(r.Nodes) {
		s := n.Page
		if !s.Ready {
			findings.alarm(n.Name, "not ready", s.NotReady)
		}
		if s.Paused != nil {
			findings.alarm(n.Name, "paused", Paused(s.Time, *s.Paused))
		}
		if len(s.Degraded) > 0 {
			findings.alarm(n.Name, "degraded", strings.Join(s.Degraded, ", "))
		}
	}
	if len(findings.rows) > 0 {
		t.WriteByte('\n')
		findings.write(t, "")
	}
	observed(t, r.Nodes)
	silent(t, r.Nodes)
	_, err := io.WriteString(w, t.String())
	return err
}

// kubelets describes when kubelets remove images.
func (o *Others) kubelets() string {
	var parts []string
	if len(o.Kubelets) > 0 {
		parts = append(parts, "collect images "+tally(o.Kubelets))
	}
	if len(o.KubeletsUnknown) > 0 {
		parts = append(parts, "unknown: "+tally(o.KubeletsUnknown))
	}
	return strings.Join(parts, "; ")
}

// managers describes which kube-controller-managers collect objects.
func (o *Others) managers() string {
	var parts []string
	if len(o.Managers) > 0 {
		parts = append(parts, "collects objects: "+names(o.Managers))
	}
	if len(o.ManagersOff) > 0 {
		parts = append(parts, "does not collect objects: "+names(o.ManagersOff))
	}
	if len(parts) == 0 {
		return "unknown: no kube-controller-manager can be seen as a pod"
	}
	return strings.Join(parts, "; ")
}

func (r StatusReport) agents(t *text) {
	if len(r.Nodes) == 0 {
		t.hang("Agents       ", "none")
		return
	}
	s := fmt.Sprintf("%d of %d ready", r.Ready(), len(r.Nodes))
	if n := Silent(r.Nodes); n > 0 {
		s += fmt.Sprintf(", %d without an answer", n)
	}
	t.hang("Agents       ", s)
	versions, modes := map[string]int{}, map[string]int{}
	halted, degraded, running := 0, 0, 0
	for _, n := range answered(r.Nodes) {
		versions[n.Page.Version]++
		modes[n.Page.Mode]++
		halted += count(n.Page.Paused != nil)
		degraded += count(len(n.Page.Degraded) > 0)
		running += count(n.Page.Running)
	}
	if len(versions) == 0 {
		return
	}
	t.hang("  versions   ", tally(versions))
	t.hang("  modes      ", tally(modes))
	t.hang("  paused     ", fmt.Sprint(halted))
	t.hang("  degraded   ", fmt.Sprint(degraded))
	t.hang("  reclaims   ", fmt.Sprint(running))
}

// Observed returns the sum of what agents in mode observe have counted, or nil if there are none.
// lasts is how long the first of them has been in that mode.
func Observed(nodes []Node[page.Status]) (all *page.Observed, lasts time.Duration) {
	for _, node := range answered(nodes) {
		o := node.Page.Observed
		if o == nil {
			continue
		}
		if all == nil {
			all = &page.Observed{Since: o.Since}
		}
		all.Ebb, all.Others = sum(all.Ebb, o.Ebb), sum(all.Others, o.Others)
		lasts = max(lasts, node.Page.Time.Sub(o.Since)) // by the node's clock
	}
	return all, lasts
}

// observed writes what ebb would have removed beside what others have removed.
func observed(t *text, nodes []Node[page.Status]) {
	all, lasts := Observed(nodes)
	if all == nil {
		return
	}
	ebb, others := all.Ebb, all.Others
	t.WriteByte('\n')
	t.line("Images, while ebb observes, for up to %s:", duration.HumanDuration(lasts))
	columns := newTable(column{name: ""}, column{name: "EBB WOULD", right: true}, column{name: "OTHERS DID", right: true})
	columns.add("removed", fmt.Sprint(ebb.Images), fmt.Sprint(others.Images))
	columns.add("freed", size(ebb.Freed.Bytes), size(others.Freed.Bytes))
	columns.add("needed again", fmt.Sprint(ebb.PulledAgain), fmt.Sprint(others.PulledAgain))
	columns.add("to pull again", size(ebb.PulledBytes), size(others.PulledBytes))
	columns.add("above threshold", seconds(ebb.AboveSeconds), seconds(others.AboveSeconds))
	columns.write(t, "  ")
}

func sum(a, b page.ObservedBy) page.ObservedBy {
	a.Images, a.PulledAgain = a.Images+b.Images, a.PulledAgain+b.PulledAgain
	a.Freed, a.PulledBytes = add(a.Freed, b.Freed), a.PulledBytes+b.PulledBytes
	a.AboveSeconds += b.AboveSeconds
	return a
}

func count(so bool) int {
	if so {
		return 1
	}
	return 0
}

// tally lists values with their counts, the most frequent first.
func tally(counts map[string]int) string {
	keys := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	const most = 8
	var parts []string
	for i, k := range keys {
		if i == most {
			parts = append(parts, fmt.Sprintf("and %d others", len(keys)-most))
			break
		}
		parts = append(parts, fmt.Sprintf("%s (%d)", cmp.Or(Clean(k), "unknown"), counts[k]))
	}
	return strings.Join(parts, ", ")
}

// line describes the controller. It reports a controller as not installed only if its pods could be
// listed.
func (c *Controller) line(now time.Time) string {
	if c.Pods == 0 && len(c.Unknown) == 0 {
		return "not installed"
	}
	var parts []string
	if c.Pods > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d pods ready", c.Ready, c.Pods))
	}
	if c.Leader != "" {
		parts = append(parts, fmt.Sprintf("%s leads; Lease renewed %s ago", Clean(c.Leader), age(now, c.Renewed)))
	}
	if c.Version != "" {
		parts = append(parts, "version "+Clean(c.Version))
	}
	if c.Mode != "" {
		parts = append(parts, "mode "+Clean(c.Mode))
	}
	if c.Halted != "" {
		parts = append(parts, fmt.Sprintf("halted (%s): it deletes nothing; see: ebb control ready", Clean(c.Halted)))
	}
	for _, u := range c.Unknown {
		parts = append(parts, "unknown: "+Clean(u))
	}
	return strings.Join(parts, "; ")
}
