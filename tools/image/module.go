package image

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// module is a Go module, as recorded in a binary.
type module struct{ path, version, sum string }

// modules returns the modules that a program was linked from, without ebb itself.
func (p program) modules() []module {
	var list []module
	for _, d := range p.info.Deps {
		if d.Replace != nil {
			d = d.Replace
		}
		list = append(list, module{d.Path, d.Version, d.Sum})
	}
	return list
}

// allModules returns the modules of all programs, sorted, each once.
func allModules(list []program) []module {
	all := map[module]bool{}
	for _, p := range list {
		for _, m := range p.modules() {
			all[m] = true
		}
	}
	return slices.SortedFunc(maps.Keys(all), func(a, b module) int {
		return strings.Compare(a.path+"@"+a.version, b.path+"@"+b.version)
	})
}

// ThirdParties returns a text with the licences of all modules that the binaries were linked from. The
// module cache must have the modules, as it does after a build.
func ThirdParties(ctx context.Context, tree string, binaries ...string) ([]byte, error) {
	var list []program
	for _, file := range binaries {
		info, err := buildinfo.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read build information: %w", err)
		}
		list = append(list, program{info: info})
	}
	all := allModules(list)
	texts, err := readLicences(ctx, tree, all)
	if err != nil {
		return nil, err
	}
	for _, m := range all {
		if len(texts[m]) == 0 {
			return nil, fmt.Errorf("find licence of %s %s: its module has no file with a usual name, such as LICENSE", m.path, m.version)
		}
	}
	return thirdParties(all, texts), nil
}

// licenceText is a licence file of a module.
type licenceText struct{ name, text string }

// licenceFile matches the usual names of licence files.
var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|copyright|unlicense|patents)([.-].*)?$`)

// maxLicence is the largest size of a file that is read as a licence, in bytes.
const maxLicence = 256 << 10

// readLicences returns the licence files of modules from the module cache. The cache
// has the modules, because they were just compiled.
func readLicences(ctx context.Context, tree string, list []module) (map[module][]licenceText, error) {
	if len(list) == 0 {
		return nil, nil
	}
	args := []string{"list", "-m", "-f", "{{with .Replace}}{{.Path}} {{.Dir}}{{else}}{{.Path}} {{.Dir}}{{end}}"}
	for _, m := range list {
		args = append(args, m.path)
	}
	out, err := run(ctx, tree, environment(Architectures[0]), "go", args...)
	if err != nil {
		return nil, fmt.Errorf("find modules: %w", err)
	}
	dirs := map[string]string{}
	for line := range strings.Lines(out) {
		path, dir, _ := strings.Cut(strings.TrimSpace(line), " ")
		dirs[path] = dir
	}
	texts := map[module][]licenceText{}
	for _, m := range list {
		if texts[m], err = licencesIn(dirs[m.path]); err != nil {
			return nil, fmt.Errorf("read licence of %s: %w", m.path, err)
		}
	}
	return texts, nil
}

// licencesIn reads the licence files of a directory; for "" it returns none.
func licencesIn(dir string) ([]licenceText, error) {
	if dir == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var texts []licenceText
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() || info.Size() > maxLicence || !licenceFile.MatchString(e.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		texts = append(texts, licenceText{e.Name(), string(text)})
	}
	return texts, nil
}

// unknown is SPDX's value for facts that were not examined or could not be determined.
const unknown = "NOASSERTION"

// marks match sentences, in lower case, that occur in one licence and in no other. A
// file that matches two, or none, needs a person to read it.
var marks = map[string]*regexp.Regexp{
	"Apache-2.0": regexp.MustCompile(`apache license version 2\.0, january 2004`),
	"MIT":        regexp.MustCompile(`permission is hereby granted, free of charge, to any person obtaining a copy`),
	"ISC":        regexp.MustCompile(`permission to use, copy, modify, and(/or)? distribute this software for any purpose`),
	"MPL-2.0":    regexp.MustCompile(`mozilla public license,? version 2\.0`),
	"BSD":        regexp.MustCompile(`redistribution and use in source and binary forms, with or without modification`),
	"GPL":        regexp.MustCompile(`gnu (lesser |affero )?general public license`),
}

// threeClauses matches the three-clause BSD licence, not the two-clause one.
var threeClauses = regexp.MustCompile(`neither the names? of|may not be used to endorse or promote`)

// identify returns the SPDX identifier of a module's licence. There must be at least
// one licence file, and all must match the same licence; otherwise it returns unknown.
// NOTICE and patent grants accompany a licence and are ignored.
func identify(texts []licenceText) string {
	found := ""
	for _, t := range texts {
		if name := strings.ToLower(t.name); strings.HasPrefix(name, "notice") || strings.HasPrefix(name, "patents") {
			continue
		}
		id := identifyText(t.text)
		if id == unknown || found != "" && found != id {
			return unknown
		}
		found = id
	}
	if found == "" {
		return unknown
	}
	return found
}

func identifyText(text string) string {
	text = strings.Join(strings.Fields(strings.ToLower(text)), " ")
	found := unknown
	for id, mark := range marks {
		if !mark.MatchString(text) {
			continue
		}
		if found != unknown {
			return unknown
		}
		found = id
	}
	return precise(found, text)
}

func precise(id, text string) string {
	switch {
	case id == "BSD" && threeClauses.MatchString(text):
		return "BSD-3-Clause"
	case id == "BSD":
		return "BSD-2-Clause"
	case id == "GPL": // a mark does not determine the version, or "or later"
		return unknown
	}
	return id
}

// thirdParties returns a text with the licences of all modules; equal texts appear
// once.
func thirdParties(list []module, texts map[module][]licenceText) []byte {
	users := map[string][]string{}
	var order []string
	for _, m := range list {
		for _, t := range texts[m] {
			if users[t.text] == nil {
				order = append(order, t.text)
			}
			users[t.text] = append(users[t.text], m.path+" "+m.version+" ("+t.name+")")
		}
	}
	var b strings.Builder
	b.WriteString("The programs of ebb contain the Go standard library (BSD-3-Clause, as golang.org/x below) and these modules.\n")
	for _, text := range order {
		fmt.Fprintf(&b, "\n%s\n%s\n\n%s\n", strings.Repeat("=", 80), strings.Join(users[text], "\n"), strings.TrimRight(text, "\n"))
	}
	return []byte(b.String())
}
