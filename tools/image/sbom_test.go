package image

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"
	"github.com/spdx/tools-golang/spdxlib"

	"github.com/ebb-agent/ebb/tools/buildtest"
)

const (
	mit    = "Permission is hereby granted, free of charge, to any person obtaining a copy\nof this software"
	apache = "Apache License\n  Version 2.0, January 2004"
	bsd    = "Redistribution and use in source and binary forms, with or without\nmodification, are permitted"
)

func TestIdentify(t *testing.T) {
	text := func(pairs ...string) (texts []licenceText) {
		for i := 0; i < len(pairs); i += 2 {
			texts = append(texts, licenceText{pairs[i], pairs[i+1]})
		}
		return texts
	}
	for _, c := range []struct {
		texts []licenceText
		want  string
	}{
		{nil, unknown},
		{text("LICENSE", mit), "MIT"},
		{text("LICENSE", apache, "NOTICE", "made by "+mit), "Apache-2.0"},
		{text("LICENSE", bsd), "BSD-2-Clause"},
		{text("LICENSE", bsd+" Neither the name of Google", "PATENTS", "grants"), "BSD-3-Clause"},
		{text("LICENSE", mit+apache), unknown},
		{text("LICENSE", mit, "LICENSE.libyaml", apache), unknown},
		{text("LICENSE", mit, "COPYING", "All rights reserved"), unknown},
		{text("LICENSE", "GNU General Public License"), unknown},
		{text("NOTICE", apache), unknown},
		{text("LICENSE", mit, "LICENSE.txt", mit), "MIT"},
	} {
		if got := identify(c.texts); got != c.want {
			t.Errorf("identify(%v) = %s, want %s", c.texts, got, c.want)
		}
	}
}

// TestLicencesIn: a module's own files alone, small, and no links out of it.
func TestLicencesIn(t *testing.T) {
	dir := t.TempDir()
	for name, size := range map[string]int{"LICENSE": 10, "licence.md": 10, "NOTICE.txt": 10, "LICENSE-huge": maxLicence + 1, "licensed.go": 10, "README": 10} {
		if err := os.WriteFile(filepath.Join(dir, name), bytes.Repeat([]byte("x"), size), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "COPYING")); err != nil {
		t.Fatal(err)
	}
	texts, err := licencesIn(dir)
	var names []string
	for _, text := range texts {
		names = append(names, text.name)
	}
	if got := strings.Join(names, " "); err != nil || got != "LICENSE NOTICE.txt licence.md" {
		t.Errorf("licence files %s, %v", got, err)
	}
	if texts, err := licencesIn(""); err != nil || texts != nil {
		t.Errorf("of no directory: %v, %v", texts, err)
	}
}

func TestThirdParties(t *testing.T) {
	a, b, c := module{"a", "v1", ""}, module{"b", "v2", ""}, module{"c", "v3", ""}
	got := string(thirdParties([]module{a, b, c}, map[module][]licenceText{
		a: {{"LICENSE", "same"}}, b: {{"LICENSE", "other"}}, c: {{"COPYING", "same"}},
	}))
	if strings.Count(got, "same") != 1 || !strings.Contains(got, "a v1 (LICENSE)\nc v3 (COPYING)\n\nsame") || !strings.Contains(got, "b v2 (LICENSE)\n\nother") {
		t.Errorf("third parties:\n%s", got)
	}
}

// testPrograms are two that share one of their modules.
func testPrograms() []program {
	one := &debug.BuildInfo{GoVersion: "go1.26.8", Main: debug.Module{Path: "github.com/ebb-agent/ebb", Version: "v1"}, Deps: []*debug.Module{
		{Path: "example.com/Upper/b-c", Version: "v1.0.0+incompatible", Sum: "h1:x="},
		{Path: "example.com/b", Version: "v1.0.0", Replace: &debug.Module{Path: "example.com/fork", Version: "v1.0.1"}},
	}}
	two := *one
	two.Deps = []*debug.Module{one.Deps[0], {Path: "example.com/Upper/b/c", Version: "v1.0.0+incompatible"}}
	return []program{
		{name: "ebb", arch: "amd64", sha256: strings.Repeat("1", 64), info: one},
		{name: "ebb", arch: "arm64", sha256: strings.Repeat("2", 64), info: &two},
	}
}

func TestSBOM(t *testing.T) {
	list := testPrograms()
	raw, err := sbom(testFacts, list, map[module][]licenceText{{"example.com/fork", "v1.0.1", ""}: {{"LICENSE", mit}}})
	if err != nil {
		t.Fatal(err)
	}
	doc := checkSBOM(t, raw, list)
	for _, p := range doc.Packages {
		if p.PackageName == "example.com/fork" && p.PackageLicenseDeclared != "MIT" {
			t.Errorf("licence of the fork: %s", p.PackageLicenseDeclared)
		}
	}
	for _, want := range []string{"pkg:golang/example.com/upper/b-c@v1.0.0%2Bincompatible", "pkg:golang/std@1.26.8"} {
		if !bytes.Contains(raw, []byte(`"`+want+`"`)) {
			t.Errorf("no %s in:\n%s", want, raw)
		}
	}
	if again, err := sbom(testFacts, list, nil); err != nil || bytes.Equal(raw, again) {
		t.Errorf("two documents that differ have one name: %v", err)
	}
}

var spdxID = regexp.MustCompile(`^[A-Za-z0-9.-]+$`)

// TestLicences: a program whose licence has the choice for the kernel programs links
// them, and the others do not; the document and the labels say the same.
func TestLicences(t *testing.T) {
	list := testPrograms()
	for _, name := range programs {
		linked := strings.Contains(command(t, ".", "go", "list", "-deps", "../../cmd/"+name), "github.com/ebb-agent/ebb/bpf\n")
		p := program{name: name, arch: "amd64", sha256: strings.Repeat("3", 64), info: list[0].info}
		if got := p.licence(); strings.Contains(got, "GPL-2.0-only OR Apache-2.0") != linked {
			t.Errorf("%s has the licence %s; that it links the kernel programs is %t", name, got, linked)
		}
		raw, err := sbom(testFacts, []program{p}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, of := range checkSBOM(t, raw, []program{p}).Packages {
			want := p.licence()
			switch of.PrimaryPackagePurpose {
			case "CONTAINER":
				want = licenceWithBPF
			case "LIBRARY":
				continue
			}
			if of.PackageLicenseDeclared != want {
				t.Errorf("%s has the licence %s, want %s", of.PackageName, of.PackageLicenseDeclared, want)
			}
		}
	}
	if got := testFacts.labels()["org.opencontainers.image.licenses"]; got != licenceWithBPF {
		t.Errorf("the label is %s", got)
	}
}

// TestLicencesOfPrograms: they are read from the programs themselves. Here the command reads its own.
func TestLicencesOfPrograms(t *testing.T) {
	tool := buildtest.Program(t, "tools/image/cmd/image")
	text := command(t, ".", tool, "licences", tool)
	for _, want := range []string{"github.com/spf13/cobra v", "github.com/google/go-containerregistry v", "Apache License"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %d bytes", want, len(text))
		}
	}
	if _, err := ThirdParties(t.Context(), ".", "sbom.go"); err == nil {
		t.Error("a source has licences")
	}
}

// checkSBOM reads a document with SPDX's own library, and holds it against the
// specification's mandatory fields and against what the programs were linked from.
func checkSBOM(t *testing.T, raw []byte, list []program) *v2_3.Document {
	t.Helper()
	doc, err := json.Read(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	if err := spdxlib.ValidateDocument(doc); err != nil {
		t.Error(err)
	}
	if doc.SPDXVersion != "SPDX-2.3" || doc.DataLicense != "CC0-1.0" || doc.SPDXIdentifier != "DOCUMENT" || doc.DocumentName == "" ||
		!strings.HasPrefix(doc.DocumentNamespace, "https://") || strings.Contains(doc.DocumentNamespace, "#") || len(doc.CreationInfo.Creators) == 0 {
		t.Errorf("document: %+v", doc)
	}
	if _, err := time.Parse("2006-01-02T15:04:05Z", doc.CreationInfo.Created); err != nil {
		t.Error(err)
	}
	byID := map[common.ElementID]*v2_3.Package{}
	for _, p := range doc.Packages {
		if byID[p.PackageSPDXIdentifier] != nil || !spdxID.MatchString(string(p.PackageSPDXIdentifier)) {
			t.Errorf("SPDXID %q, twice or wrong", p.PackageSPDXIdentifier)
		}
		byID[p.PackageSPDXIdentifier] = p
		if p.PackageName == "" || p.PackageVersion == "" || p.PackageDownloadLocation == "" || p.FilesAnalyzed ||
			p.PackageLicenseConcluded == "" || p.PackageLicenseDeclared == "" || p.PackageCopyrightText == "" || p.PrimaryPackagePurpose == "" {
			t.Errorf("package lacks something: %+v", p)
		}
	}
	// What each program depends on, by the document and by itself.
	documented := map[common.ElementID]map[string]bool{}
	for _, r := range doc.Relationships {
		if r.Relationship == common.TypeRelationshipDependsOn {
			from, to := r.RefA.ElementRefID, byID[r.RefB.ElementRefID]
			if documented[from] == nil {
				documented[from] = map[string]bool{}
			}
			documented[from][to.PackageName+" "+to.PackageVersion] = true
		}
	}
	for _, p := range list {
		of := byID[programID(p)]
		if of == nil || len(of.PackageChecksums) != 1 || of.PackageChecksums[0].Value != p.sha256 {
			t.Fatalf("%s for %s: %+v", p.name, p.arch, of)
		}
		linked := map[string]bool{"std " + strings.TrimPrefix(p.info.GoVersion, "go"): true}
		for _, m := range p.modules() {
			linked[m.path+" "+m.version] = true
		}
		if !maps.Equal(linked, documented[programID(p)]) {
			t.Errorf("%s for %s is linked from %v; the document has %v", p.name, p.arch, linked, documented[programID(p)])
		}
	}
	return doc
}
