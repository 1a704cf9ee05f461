package redact

import (
	"regexp"
	"slices"
	"strings"
)

var (
	// A PEM block may lack its end or, in a log that begins in the middle, its beginning.
	pemBlock = regexp.MustCompile(`(?s)-----BEGIN [^-]{1,60}-----.*?(?:-----END [^-]{1,60}-----|\z)`)
	pemTail  = regexp.MustCompile(`[A-Za-z0-9+/=\s\\]*-----END [^-]{1,60}-----`)
	pemLine  = regexp.MustCompile(`^\s*[A-Za-z0-9+/]{48,}={0,2}\s*$`)
	digest   = regexp.MustCompile(`^\s*[0-9a-fA-F]+\s*$`)

	scheme   = regexp.MustCompile(`(?i)\b(bearer|basic)(\s+)[A-Za-z0-9._~+/=-]{4,}`)
	webToken = regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*){0,2}`)
	// A digest after the @ is that of an image. Then no user precedes the @.
	userInfo = regexp.MustCompile(`(://)(?:[^\s/?#"'\\@:]*:[^\s"'\\]*|[^\s/?#"'\\]+)@(sha\d+:)?`)

	// A key, and what separates it from its value: a colon, an equals sign, or after a flag a
	// space.
	key = regexp.MustCompile(`(?i)(--?)?([\w.-]*(?:password|passwd|passphrase|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|client-key-data|client-certificate-data|credential|authorization|bearer|cookie|auth\b|pwd\b)[\w.-]*)((?:\\*["'])?[ \t]*[:=][ \t]*|[ \t]+)`)
)

// Text removes secrets from a text.
func Text(s string, counts Counts) string {
	if strings.Contains(s, "-----") {
		s = replace(pemBlock, s, func([]string) string { counts[PEM]++; return Mask })
		s = replace(pemTail, s, func([]string) string { counts[PEM]++; return Mask })
	}
	s = replace(scheme, s, func(m []string) string { counts[Credential]++; return m[1] + m[2] + Mask })
	s = replace(webToken, s, func([]string) string { counts[WebToken]++; return Mask })
	s = users(s, counts)
	var b strings.Builder
	for s != "" {
		s = line(&b, s, counts)
	}
	return b.String()
}

// users removes user names and passwords from URLs.
func users(s string, counts Counts) string {
	return replace(userInfo, s, func(m []string) string {
		if digest := "@" + m[2]; m[2] != "" {
			return users(strings.TrimSuffix(m[0], digest), counts) + digest
		}
		if m[0] != m[1]+Mask+"@" {
			counts[URL]++
		}
		return m[1] + Mask + "@"
	})
}

// replace replaces each match by what with returns for the groups of the match.
func replace(expression *regexp.Regexp, s string, with func(groups []string) string) string {
	return expression.ReplaceAllStringFunc(s, func(match string) string {
		return with(expression.FindStringSubmatch(match))
	})
}

// line writes the first line of s without secrets, and returns the rest of s. If the value of a key
// ends on a later line, the rest begins after that value.
func line(b *strings.Builder, s string, counts Counts) (rest string) {
	end := strings.IndexByte(s, '\n') + 1
	if end == 0 {
		end = len(s)
	}
	if pemLine.MatchString(s[:end]) && !digest.MatchString(s[:end]) {
		counts[PEM]++
		b.WriteString(Mask + s[len(strings.TrimRight(s[:end], "\r\n")):end])
		return s[end:]
	}
	for some := mentions(s[:end]); some; { // checked once for the line: a page can be one line of several MiB
		at := key.FindStringSubmatchIndex(s[:end])
		if at == nil {
			break
		}
		before, name, between, isFlag := s[:at[1]], s[at[4]:at[5]], s[at[6]:at[7]], at[2] >= 0
		b.WriteString(before)
		s, end = s[len(before):], end-len(before)
		if !Sensitive(name) || strings.TrimSpace(between) == "" && !isFlag {
			continue
		}
		from, to := value(s, strings.Contains(between, ":"))
		if to > from && s[from:to] != Mask {
			counts[Value]++
			b.WriteString(s[:from] + Mask)
			s, end = s[to:], max(0, end-to)
		}
		if end == 0 {
			return s
		}
	}
	b.WriteString(s[:end])
	return s[end:]
}

// mentions reports whether a text may have the key of a secret. Most texts have none, and this
// check is cheap.
func mentions(s string) bool {
	s = plainKey.Replace(strings.ToLower(s))
	return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(s, word) })
}

// value returns where the value at the beginning of s begins and ends. A value without quotes ends
// at a space; after a colon it ends with its line, as in YAML. A mapping has no value, because its
// own keys decide.
func value(s string, colon bool) (begin, end int) {
	switch {
	case strings.HasPrefix(s, "{"):
		return 0, 0
	case strings.HasPrefix(s, Mask):
		return 0, len(Mask)
	case strings.HasPrefix(s, "["):
		return 0, bracketed(s)
	}
	slashes := len(s) - len(strings.TrimLeft(s, `\`))
	if slashes < len(s) && (s[slashes] == '"' || s[slashes] == '\'') {
		begin = slashes + 1
		return begin, begin + quoted(s[begin:], s[slashes], slashes)
	}
	ends := " \t\r\n\"'"
	if colon {
		ends = "\r\n\"'"
	}
	if end = strings.IndexAny(s, ends); end < 0 {
		end = len(s)
	}
	for end > 0 && s[end-1] == '\\' { // belongs to the quote after it
		end--
	}
	return 0, end
}

// quoted returns the length of a string whose quotes have this many backslashes before them. Quotes
// with more backslashes are a part of the string.
func quoted(s string, quote byte, slashes int) int {
	before := 0
	for i := range len(s) {
		switch {
		case s[i] == '\n':
			return i // the string was cut off
		case s[i] == quote && before == slashes:
			return i - slashes
		case s[i] == '\\':
			before++
		default:
			before = 0
		}
	}
	return len(s)
}

// bracketed returns the length of a list. It does not treat brackets in quotes specially.
func bracketed(s string) int {
	depth := 0
	for i := range len(s) {
		switch s[i] {
		case '[':
			depth++
		case ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return len(s)
}
