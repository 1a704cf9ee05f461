package orphans

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Shell returns a command line for a POSIX shell. Every argument arrives unchanged, and the line
// has no unprintable characters. It returns "" if an argument cannot be written: one with a NUL
// byte, or an unprintable one that ends in a newline, because $(...) drops newlines at the end.
func Shell(args []string) string {
	words := make([]string, len(args))
	for i, a := range args {
		if words[i] = word(a); words[i] == "" {
			return ""
		}
	}
	return strings.Join(words, " ")
}

func word(s string) string {
	switch {
	case s != "" && strings.IndexFunc(s, special) < 0:
		return s
	case shown(s):
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	case strings.HasSuffix(s, "\n"), strings.Contains(s, "\x00"):
		return ""
	}
	var b strings.Builder
	b.WriteString(`"$(printf %b '`)
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		if special(r) {
			for _, c := range []byte(s[i : i+size]) {
				fmt.Fprintf(&b, `\0%03o`, c)
			}
		} else {
			b.WriteRune(r)
		}
		i += size
	}
	b.WriteString(`')"`)
	return b.String()
}

// special reports whether a rune needs quoting: it means something to a shell, or is not ASCII.
func special(r rune) bool {
	return r >= 0x80 || !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=,@+", r))
}

// shown reports whether a terminal shows all of s as it is: valid UTF-8, and printable.
func shown(s string) bool {
	return utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}
