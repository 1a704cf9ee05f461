package redact

import (
	"slices"
	"strings"
)

// Mask replaces what was removed.
const Mask = "[redacted]"

// Counts is how often something was removed, by kind.
type Counts map[string]int

// Kinds of what is removed.
const (
	Value      = "value of a secret's key"
	PEM        = "PEM block"
	Credential = "credential of HTTP"
	WebToken   = "JSON web token"
	URL        = "user in a URL"
	Environ    = "value of an environment variable"
)

// words are parts of keys whose values are secrets, in lower case and without separators. The short
// ones (auth, pwd) count only at the end of a key: auth is a secret's key, author is not.
var words = []string{
	"password", "passwd", "passphrase", "secret", "token", "apikey", "accesskey", "privatekey", "clientkeydata",
	"clientcertificatedata", "credential", "authorization", "auth", "bearer", "cookie", "pwd",
}

// benign are ends of keys that name where a secret is, or how long it lasts.
var benign = []string{"file", "path", "dir", "directory", "name", "names", "namespace", "ref", "seconds"}

var plainKey = strings.NewReplacer("-", "", "_", "", ".", "", " ", "")

// Sensitive reports whether the value of a key is a secret: true for password, clientSecret and
// API_KEY, false for tokenFile and secretName.
func Sensitive(key string) bool {
	key = plainKey.Replace(strings.ToLower(key))
	if slices.ContainsFunc(benign, func(end string) bool { return strings.HasSuffix(key, end) }) {
		return false
	}
	return slices.ContainsFunc(words, func(word string) bool {
		short := word == "auth" || word == "pwd"
		return strings.HasSuffix(key, word) || !short && strings.Contains(key, word)
	})
}
