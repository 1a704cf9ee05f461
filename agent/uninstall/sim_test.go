package uninstall

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// How a simulated node behaves.
const (
	works    = iota
	dead     // its kubelet does nothing
	fails    // ebb-agent unload ends with an error
	slow     // it is taken, and never ends
	vanishes // its Node is deleted after half a minute
	late     // its Node is there only after two minutes
)

type simPod struct {
	name, node, run string
	made            time.Time
	going           bool
	behaves         int
}

// sim is a cluster of many nodes: the DaemonSet controller and the kubelets answer when
// somebody looks.
type sim struct {
	*server
	begun   time.Time
	names   []string
	behaves map[string]int
	takes   time.Duration // to unload a node
	set     string        // the DaemonSet, as it was applied
	pods    []*simPod
	strays  []string // agents' pods that have lost their DaemonSet
	history bool     // the DaemonSet's ControllerRevisions
	made    int
	on      func(n int) int // what request n is answered with instead, if not 0
}

func newSim(nodes int, behaves map[int]int) *sim {
	s := &sim{server: newServer(), begun: time.Now(), behaves: map[string]int{}, takes: 3 * time.Second}
	for n := range nodes {
		name := fmt.Sprintf("node-%04d", n)
		s.names, s.behaves[name] = append(s.names, name), behaves[n]
	}
	s.strays = []string{"ebb-agent-x"}
	s.server.rest = s.answer
	return s
}

func (s *sim) answer(w http.ResponseWriter, r *http.Request) {
	if s.on != nil {
		if code := s.on(len(s.asked)); code != 0 {
			refuse(w, code, "a fault")
			return
		}
	}
	const apps, core = "/apis/apps/v1/namespaces/ebb/", "/api/v1/namespaces/ebb/"
	selector := r.URL.Query().Get("labelSelector")
	switch what := r.Method + " " + r.URL.Path; {
	case what == "GET /api/v1/nodes":
		s.paged(w, r, s.nodes())
	case what == "GET "+apps+"daemonsets/ebb-unload" && s.set != "":
		answer(w, s.set)
	case what == "PATCH "+apps+"daemonsets/ebb-unload":
		s.apply(r)
		answer(w, s.set)
	case what == "DELETE "+apps+"daemonsets/ebb-unload" && s.set != "":
		s.set = ""
		answer(w, `{}`)
	case what == "DELETE "+apps+"controllerrevisions":
		s.history = false
		answer(w, `{}`)
	case what == "DELETE "+core+"pods" && selector == unloadLabel+"=true":
		s.deletePods(r)
		answer(w, `{}`)
	case what == "GET "+core+"pods":
		s.paged(w, r, s.podsOf(selector))
	case strings.HasPrefix(what, "DELETE "+core+"pods/"):
		s.strays = slices.DeleteFunc(s.strays, func(name string) bool { return strings.HasSuffix(what, "/"+name) && name != "of-a-dead-node" })
		answer(w, `{}`)
	case r.Method == http.MethodGet && strings.Count(what, "/") == 6-strings.Count(what, "/api/v1"):
		answer(w, page("")) // of other types there are none
	default:
		refuse(w, http.StatusNotFound, what+" not found")
	}
}

func (s *sim) paged(w http.ResponseWriter, r *http.Request, items []string) {
	from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	to, next := min(from+limit, len(items)), ""
	if to < len(items) {
		next = strconv.Itoa(to)
	}
	answer(w, page(next, items[from:to]...))
}

func (s *sim) nodes() (all []string) {
	for _, name := range s.names {
		age := time.Since(s.begun)
		if b := s.behaves[name]; (b != vanishes || age < 30*time.Second) && (b != late || age > 2*time.Minute) {
			all = append(all, fmt.Sprintf(`{"metadata":{"name":%q,"uid":%q,"resourceVersion":"5"}}`, name, name))
		}
	}
	return all
}

// apply is the DaemonSet controller: pods of another run go first.
func (s *sim) apply(r *http.Request) {
	data, _ := io.ReadAll(r.Body)
	s.set, s.history = string(data), true
	run, wanted := s.run()
	s.pods = slices.DeleteFunc(s.pods, func(p *simPod) bool {
		p.going = p.going || p.run != run || !slices.Contains(wanted, p.node)
		return p.going && p.behaves != dead
	})
	has := map[string]bool{}
	for _, p := range s.pods {
		has[p.node] = true
	}
	for _, name := range wanted {
		if !has[name] {
			s.made++
			s.pods = append(s.pods, &simPod{name: fmt.Sprint("p", s.made), node: name, run: run, made: time.Now(), behaves: s.behaves[name]})
		}
	}
}

// run is what the DaemonSet is labelled with, and the nodes that it means.
func (s *sim) run() (run string, nodes []string) {
	var set struct {
		Spec struct{ Template corev1.PodTemplateSpec }
	}
	_ = json.Unmarshal([]byte(s.set), &set)
	nodes = nodesOf(&set.Spec.Template.Spec)
	if nodes == nil {
		nodes = s.names
	}
	return set.Spec.Template.Labels[runLabel], nodes
}

func (s *sim) deletePods(r *http.Request) {
	options := struct{ GracePeriodSeconds int }{-1}
	_ = json.NewDecoder(r.Body).Decode(&options)
	s.pods = slices.DeleteFunc(s.pods, func(p *simPod) bool {
		p.going = true
		return p.behaves == works || p.behaves == fails || p.behaves == slow || options.GracePeriodSeconds == 0
	})
}

func (s *sim) podsOf(selector string) (all []string) {
	for _, p := range s.pods {
		if selector == unloadLabel+"=true" || selector == runLabel+"="+p.run {
			all = append(all, p.json(s.takes))
		}
	}
	if selector == "of=ebb,!"+unloadLabel {
		for _, name := range s.strays {
			all = append(all, fmt.Sprintf(`{"metadata":{"name":%q,"uid":"s","resourceVersion":"5","ownerReferences":[{"kind":"DaemonSet","uid":"gone","name":"ebb-agent","apiVersion":"apps/v1"}]}}`, name))
		}
	}
	return all
}

func (p *simPod) json(takes time.Duration) string {
	going, status := "", ""
	if p.going {
		going = `,"deletionTimestamp":"2026-01-02T03:04:05Z"`
	}
	if p.behaves != dead && p.behaves != vanishes {
		state, restarts := `"running":{}`, 0
		if age := time.Since(p.made); age >= takes && p.behaves == fails {
			state, restarts = `"terminated":{"exitCode":1,"message":"the pins are not ebb's"}`, int(age/(10*time.Second))
		} else if age >= takes && p.behaves != slow {
			state = `"terminated":{"exitCode":0}`
		}
		status = fmt.Sprintf(`"startTime":"2026-01-02T03:04:05Z","initContainerStatuses":[{"name":"unload","restartCount":%d,"state":{%s}}]`, restarts, state)
	}
	return fmt.Sprintf(`{"metadata":{"name":%q,"uid":%q,"resourceVersion":"5","namespace":"ebb"%s},"spec":{"nodeName":%q},"status":{%s}}`,
		p.name, p.name, going, p.node, status)
}
