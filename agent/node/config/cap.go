package config

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Cap limits removals of images: a number of images, such as "500", or a share of the node's images,
// such as "50%".
type Cap string

// maxCap is the largest number of images that a Cap may have.
const maxCap = 100000

// Value returns the number of images, or, if share is true, the share in percent. A Cap that Parse has
// accepted has at least 1 of either.
func (c Cap) Value() (n int, share bool) {
	digits, share := strings.CutSuffix(string(c), "%")
	n, err := strconv.Atoi(digits)
	most := maxCap
	if share {
		most = 100
	}
	if err != nil || n < 1 || n > most {
		return 0, share
	}
	return n, share
}

func (c Cap) problem() error {
	if n, _ := c.Value(); n < 1 {
		return fmt.Errorf("%q is neither a number of images from 1 to %d nor a share from 1%% to 100%%", string(c), maxCap)
	}
	return nil
}

// UnmarshalJSON takes a number or a string.
func (c *Cap) UnmarshalJSON(data []byte) error {
	var n json.Number
	if err := json.Unmarshal(data, &n); err == nil {
		*c = Cap(n)
		return nil
	}
	return json.Unmarshal(data, (*string)(c))
}

// MarshalJSON writes a number of images without quotes.
func (c Cap) MarshalJSON() ([]byte, error) {
	if n, share := c.Value(); n > 0 && !share {
		return json.Marshal(n)
	}
	return json.Marshal(string(c))
}
