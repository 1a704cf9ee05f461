package image

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxKeepRule bounds a rule; a reference is at most 255 characters of name,
// 128 of tag and a digest.
const maxKeepRule = 512

// KeepRule matches references of images that must stay. It is a shell pattern
// for the whole reference as the runtime knows it ("docker.io/library/busybox:1",
// never "busybox"):
//
//   - ? matches one character except '/', * any number of these;
//   - ** matches any number of any characters;
//   - any other character matches itself.
//
// A rule without tag or digest matches references with any tag or digest.
type KeepRule struct {
	text    string
	pattern *regexp.Regexp // matching is linear in the reference, whatever the rule
}

// ParseKeepRule validates and compiles a rule.
func ParseKeepRule(rule string) (KeepRule, error) {
	if err := checkKeepRule(rule); err != nil {
		return KeepRule{}, fmt.Errorf("keep rule %q: %w", rule, err)
	}
	var expr strings.Builder
	expr.WriteString(`(?s)\A`)
	for rest := rule; rest != ""; {
		switch {
		case strings.HasPrefix(rest, "**"):
			expr.WriteString(`.*`)
			rest = rest[2:]
		case rest[0] == '*':
			expr.WriteString(`[^/]*`)
			rest = rest[1:]
		case rest[0] == '?':
			expr.WriteString(`[^/]`)
			rest = rest[1:]
		default:
			literal := rest
			if i := strings.IndexAny(rest, "*?"); i > 0 {
				literal = rest[:i]
			}
			expr.WriteString(regexp.QuoteMeta(literal))
			rest = rest[len(literal):]
		}
	}
	expr.WriteString(`\z`)
	pattern, err := regexp.Compile(expr.String())
	if err != nil {
		return KeepRule{}, fmt.Errorf("keep rule %q: %w", rule, err)
	}
	return KeepRule{text: rule, pattern: pattern}, nil
}

// checkKeepRule rejects rules that no reference can match: a rule that silently keeps nothing
// would cost the operator the image.
func checkKeepRule(rule string) error {
	switch {
	case rule == "":
		return errors.New("is empty")
	case len(rule) > maxKeepRule:
		return fmt.Errorf("has %d characters, at most %d are allowed", len(rule), maxKeepRule)
	case !utf8.ValidString(rule):
		return errors.New("is not UTF-8")
	case strings.ContainsFunc(rule, unicode.IsSpace), strings.ContainsFunc(rule, unicode.IsControl):
		return errors.New("contains white space or a control character")
	case strings.Contains(rule, "://"):
		return errors.New("has a scheme; a reference begins with the registry's host")
	case strings.Contains(rule, "***"):
		return errors.New("has more than two * in a row")
	}
	if i := strings.IndexAny(rule, `[]{}\`); i >= 0 {
		return fmt.Errorf("contains %q: only *, ** and ? are special, use ? for such a character", rule[i])
	}
	return nil
}

// String returns the rule as written.
func (r KeepRule) String() string { return r.text }

// Match reports whether the rule matches the reference, with or without its digest and tag.
func (r KeepRule) Match(reference string) bool {
	if r.pattern == nil {
		return false
	}
	name, digest := reference, ""
	if i := strings.IndexByte(reference, '@'); i >= 0 {
		name, digest = reference[:i], reference[i:]
	}
	bare := name
	// A colon before the last slash belongs to the registry's port.
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		bare = name[:i]
	}
	return r.pattern.MatchString(reference) || r.pattern.MatchString(name) ||
		r.pattern.MatchString(bare) || r.pattern.MatchString(bare+digest)
}

// KeepRules are the operator's rules, in the order written.
type KeepRules []KeepRule

// ParseKeepRules returns all rules, or everything that is wrong with any.
func ParseKeepRules(rules []string) (KeepRules, error) {
	parsed := make(KeepRules, 0, len(rules))
	var problems []error
	for _, rule := range rules {
		r, err := ParseKeepRule(rule)
		problems = append(problems, err)
		parsed = append(parsed, r)
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	return parsed, nil
}

// Match returns the first rule that matches any of an image's references, for [Image].Keep;
// "" if none does.
func (rules KeepRules) Match(references []string) string {
	for _, r := range rules {
		for _, reference := range references {
			if r.Match(reference) {
				return r.text
			}
		}
	}
	return ""
}
