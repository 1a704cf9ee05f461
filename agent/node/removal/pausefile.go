package removal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/ebb-agent/ebb/agent/node/state"
)

// longestPauseReason bounds what is read of a pause file, in bytes.
const longestPauseReason = 256

// PauseFile is the path of a file that pauses the agent as long as it exists. Its text is the reason.
// Whoever writes it needs no answer of this agent: an agent that starts later is paused, too. "" is
// none.
type PauseFile string

// Read returns the pause, without an end; nil if there is no file. Only a file that does not exist is
// no pause: one that cannot be read pauses, too.
func (f PauseFile) Read() *state.Pause {
	if f == "" {
		return nil
	}
	reason, err := f.text()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		reason = fmt.Sprintf("it cannot be read: %v", err)
	}
	return &state.Pause{By: "the file " + string(f), Reason: reason}
}

func (f PauseFile) text() (string, error) {
	file, err := os.Open(string(f))
	if err != nil {
		return "", err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, longestPauseReason))
	return strings.Join(strings.Fields(strings.ToValidUTF8(string(data), "")), " "), err
}
