package state

import (
	"encoding/json"
	"time"
)

// wantedVersion is that of the pods' saved answer. One of another version is like none:
// the rest of the file is of use without it.
const wantedVersion = 1

type wanted struct {
	Version int                 `json:"version"`
	Wanted  map[string][]string `json:"wanted"`
}

// readWanted takes the pods' saved answer over, if there is one that can be read.
func (r *Records) readWanted(b []byte) {
	var w wanted
	if err := json.Unmarshal(b, &w); err != nil || w.Version != wantedVersion || w.Wanted == nil {
		r.Meta.PodsAnswered = time.Time{}
		return
	}
	r.Wanted = w.Wanted
}
