package extension

import "strings"

// Fault is one way to misbehave, or several.
type Fault uint

// The faults.
const (
	// NotFound answers every request for one object with a Status NotFound that names
	// the object, like storage that maps every error to NotFound.
	NotFound Fault = 1 << iota
	// EmptyLists lists nothing, and starts watches with nothing.
	EmptyLists
	// LowerVersions returns a lower resourceVersion in the answer to a GET of one
	// object than lists and watches have for the same state.
	LowerVersions
	// ListVersionOfItems gives a list the greatest version of its items: the list's
	// version decreases when the newest object is deleted.
	ListVersionOfItems
	// EndlessList accepts sendInitialEvents, sends events all the time, and never sends
	// the end bookmark.
	EndlessList
	// Unstreamed refuses sendInitialEvents, as older servers do.
	Unstreamed
	// NoUID adds to each list and watch an object without a UID: [WithoutUID].
	NoUID
	// NoListVersion returns lists without a resourceVersion.
	NoListVersion
	// EndsAfterBookmark ends each watch at once, right after a bookmark (kubernetes
	// issue 134837).
	EndsAfterBookmark
	// Silent accepts requests and answers none; watches send nothing.
	Silent
	// NoPreconditions ignores the preconditions of a DELETE.
	NoPreconditions
	// LateWatch withholds changes from running watches until it is cleared.
	LateWatch

	end
)

// WithoutUID is the name of the object that NoUID adds.
const WithoutUID = "without-uid"

// All returns all faults, one by one.
func All() (all []Fault) {
	for f := Fault(1); f < end; f <<= 1 {
		all = append(all, f)
	}
	return all
}

func (f Fault) String() string {
	names := [...]string{"NotFound", "EmptyLists", "LowerVersions", "ListVersionOfItems", "EndlessList", "Unstreamed",
		"NoUID", "NoListVersion", "EndsAfterBookmark", "Silent", "NoPreconditions", "LateWatch"}
	var set []string
	for i, name := range names {
		if f&(1<<i) != 0 {
			set = append(set, name)
		}
	}
	if len(set) == 0 {
		return "none"
	}
	return strings.Join(set, "|")
}

// Set adds faults to the active ones.
func (s *Server) Set(f Fault) { s.change(func() { s.faults |= f }) }

// Clear deactivates faults.
func (s *Server) Clear(f Fault) { s.change(func() { s.faults &^= f }) }

// Faults returns the active faults.
func (s *Server) Faults() Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.faults
}

// Restart simulates a new process whose counters begin at 1: watches end, past events
// are forgotten, and the existing objects get versions from 1 on. Their UIDs do not
// change.
func (s *Server) Restart() {
	s.change(func() {
		s.restarts++
		s.version, s.forgotten, s.past = 0, 0, nil
		for _, resource := range s.resources() {
			for _, o := range s.sorted(resource, "") {
				s.version++
				s.versions[o] = s.version
			}
		}
	})
	s.http.CloseClientConnections()
}

// Cut closes all connections. Watchers reconnect.
func (s *Server) Cut() { s.http.CloseClientConnections() }
