package cri

import "encoding/json"

// maxName bounds an image name taken from the configuration. References are
// at most 255 characters plus a host, a tag and a digest.
const maxName = 1024

// sandboxImage finds the sandbox image's name in the CRI plugin's configuration, as the verbose
// Status prints it; "" if it is not there. The rest of that text is ignored.
func sandboxImage(config string) string {
	var c struct {
		SandboxImage string `json:"sandboxImage"`
	}
	if err := json.Unmarshal([]byte(config), &c); err != nil {
		return ""
	}
	if len(c.SandboxImage) > maxName {
		return ""
	}
	return c.SandboxImage
}

// ValidID reports whether s is a full image ID: "sha256:" and 64 lower-case hex digits.
func ValidID(s string) bool {
	const prefix = "sha256:"
	if len(s) != len(prefix)+64 || s[:len(prefix)] != prefix {
		return false
	}
	for _, c := range []byte(s[len(prefix):]) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
