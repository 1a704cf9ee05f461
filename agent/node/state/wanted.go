package state

import (
	"encoding/json"
	"time"
)

// wantedVersion is the version of the pods' saved answer. An answer of another version is ignored:
// the rest of the file is useful without it.
const wantedVersion = 1

type wanted struct {
	Version int                 `json:"version"`
	Wanted  map[string][]string `json:"wanted"`
}

// readWanted takes over the pods' saved answer, if there is one that can be read.
func (r *Records) readWanted(b []byte) {
	var w wanted
	if err := json.Unmarshal(b, &w); err != nil || w.Version != wantedVersion || w.Wanted == nil {
		r.Meta.PodsAnswered = time.Time{}
		return
	}
	r.Wanted = w.Wanted
}
