package show

import (
	"github.com/ebb-agent/ebb/agent/node/page"
)

// Words returns template functions that format values as this package does.
func Words() map[string]any {
	return map[string]any{
		"size": size, "takes": takes, "age": age, "ageOf": ageOf, "in": in, "seconds": seconds, "verdict": verdict, "image": imageName,
		"paused": Paused, "asOf": asOf, "clean": Clean,
		"pressed": func(s page.Status) *Pressed {
			most, known := mostPressed(s.Filesystems)
			if !known {
				return nil
			}
			return &Pressed{Place: most.place(), Used: most.used, High: most.high, Full: most.full}
		},
		"entry": historyName, "writer": Writer.name, "signed": signed,
	}
}

// Pressed is the disk of a node that is closest to its high threshold, or farthest beyond it. Used
// and High are percentages. Full is in how many seconds the disk is full; nil if it does not fill.
type Pressed struct {
	Place      string
	Used, High int
	Full       *float64
}
