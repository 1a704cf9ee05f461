package extension

import "strings"

// Fault is one way to misbehave, or several.
type Fault uint

// The faults.
const (
	// NotFound answers all that is asked about one object with a Status NotFound that
	// names it, as storage does that maps every error to that.
	NotFound Fault = 1 << iota
	// EmptyLists lists nothing, and starts watches with nothing.
	EmptyLists
	// LowerVersions tells a lower resourceVersion in the answer to a GET of one object
	// than lists and watches tell of the same state.
	LowerVersions
	// ListVersionOfItems gives a list the greatest version of its items: it goes back
	// when the newest object is deleted.
	ListVersionOfItems
	// EndlessList takes sendInitialEvents, is busy, and never sends the end bookmark.
	EndlessList
	// Unstreamed refuses sendInitialEvents, as older servers do.
	Unstreamed
	// NoUID adds to each list and watch an object without a UID: [WithoutUID].
	NoUID
	// NoListVersion makes lists without a resourceVersion.
	NoListVersion
	// EndsAfterBookmark ends each watch right after a bookmark, at once
	// (kubernetes issue 134837).
	EndsAfterBookmark
	// Silent takes requests and answers none; watches say nothing.
	Silent
	// NoPreconditions does not look at what a DELETE demands.
	NoPreconditions
	// LateWatch keeps changes from watches that run; they are told when it is cleared.
	LateWatch

	end
)

// WithoutUID is the name of the object that NoUID adds.
const WithoutUID = "without-uid"

// All are all faults, one by one.
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

// Set adds faults to those in force.
func (s *Server) Set(f Fault) { s.change(func() { s.faults |= f }) }

// Clear ends faults.
func (s *Server) Clear(f Fault) { s.change(func() { s.faults &^= f }) }

// Faults are those in force.
func (s *Server) Faults() Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.faults
}

// Restart is what a new process does whose counters begin at 1: watches end, what
// happened before is forgotten, and the objects that are there get versions from 1 on.
// Their UIDs stay.
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

// Cut ends all connections. Who watched comes back.
func (s *Server) Cut() { s.http.CloseClientConnections() }
