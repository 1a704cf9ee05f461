package redact

import (
	"slices"
	"strings"
)

// Mask stands for what was taken out.
const Mask = "[redacted]"

// Counts say how often something was taken out, by what it was.
type Counts map[string]int

// Kinds of what is taken out.
const (
	Value      = "value of a secret's key"
	PEM        = "PEM block"
	Credential = "credential of HTTP"
	WebToken   = "JSON web token"
	URL        = "user in a URL"
	Environ    = "value of an environment variable"
)

// words are parts of keys whose values are secrets, without the signs between words. The
// short ones count at the end of a key alone: auth, and not author.
var words = []string{
	"password", "passwd", "passphrase", "secret", "token", "apikey", "accesskey", "privatekey", "clientkeydata",
	"clientcertificatedata", "credential", "authorization", "auth", "bearer", "cookie", "pwd",
}

// benign are ends of keys that say where a secret is, or how long it lasts.
var benign = []string{"file", "path", "dir", "directory", "name", "names", "namespace", "ref", "seconds"}

var plainKey = strings.NewReplacer("-", "", "_", "", ".", "", " ", "")

// Sensitive says whether what stands under a key is a secret: password, clientSecret,
// API_KEY; not tokenFile, secretName.
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
