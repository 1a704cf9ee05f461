package image

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/spdx/tools-golang/spdx/v2/common"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"
)

// sbom describes the programs in SPDX 2.3, as JSON: the image, the programs in it, and
// the modules that each binary lists.
func sbom(f facts, list []program, texts map[module][]licenceText) ([]byte, error) {
	doc := &v2_3.Document{
		SPDXVersion: v2_3.Version, DataLicense: v2_3.DataLicense, SPDXIdentifier: "DOCUMENT",
		DocumentName: "ebb " + f.version,
		CreationInfo: &v2_3.CreationInfo{
			Creators: []common.Creator{{CreatorType: "Tool", Creator: "ebb-image"}, {CreatorType: "Organization", Creator: "ebb"}},
			Created:  f.created.Format(time.RFC3339),
		},
	}
	image := describe("Image", "ebb", f.version, "CONTAINER", licenceWithBPF)
	image.PackageHomePage = sourceURL
	golang := describe("Std", "std", strings.TrimPrefix(f.golang, "go"), "LIBRARY", "BSD-3-Clause")
	golang.PackageExternalReferences = purl("std", strings.TrimPrefix(f.golang, "go"))
	doc.Packages = []*v2_3.Package{image, golang}
	relate(doc, "DOCUMENT", common.TypeRelationshipDescribe, image.PackageSPDXIdentifier)
	for _, m := range allModules(list) {
		doc.Packages = append(doc.Packages, describeModule(m, texts[m]))
	}
	for _, p := range list {
		of := describe("Program", p.name, f.version, "APPLICATION", p.licence())
		of.PackageSPDXIdentifier = programID(p)
		of.PackageFileName = "/" + binDir + p.name
		of.PackageSummary = "for linux/" + p.arch
		of.PackageChecksums = []common.Checksum{{Algorithm: common.SHA256, Value: p.sha256}}
		of.PackageExternalReferences = purl(p.info.Main.Path, f.version)
		doc.Packages = append(doc.Packages, of)
		relate(doc, image.PackageSPDXIdentifier, common.TypeRelationshipContains, of.PackageSPDXIdentifier)
		relate(doc, of.PackageSPDXIdentifier, common.TypeRelationshipDependsOn, golang.PackageSPDXIdentifier)
		for _, m := range p.modules() {
			relate(doc, of.PackageSPDXIdentifier, common.TypeRelationshipDependsOn, moduleID(m))
		}
	}
	return encode(doc)
}

// encode sets the document's namespace, which is unique by a hash of the content, and
// returns the JSON.
func encode(doc *v2_3.Document) ([]byte, error) {
	raw, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("write SBOM: %w", err)
	}
	sum := sha256.Sum256(raw)
	doc.DocumentNamespace = sourceURL + "/spdx/" + hex.EncodeToString(sum[:])
	raw, err = json.MarshalIndent(doc, "", " ")
	if err != nil {
		return nil, fmt.Errorf("write SBOM: %w", err)
	}
	return append(raw, '\n'), nil
}

// describe returns the fields that all packages have. Single files were not examined,
// and no licence is concluded: that is for lawyers.
func describe(kind, name, version, purpose, declared string) *v2_3.Package {
	return &v2_3.Package{
		PackageName: name, PackageSPDXIdentifier: elementID(kind, name, version), PackageVersion: version,
		PackageDownloadLocation: unknown, PackageSupplier: &common.Supplier{Supplier: unknown},
		PackageLicenseConcluded: unknown, PackageLicenseDeclared: declared,
		PackageCopyrightText: unknown, PrimaryPackagePurpose: purpose,
	}
}

func describeModule(m module, texts []licenceText) *v2_3.Package {
	p := describe("Module", m.path, m.version, "LIBRARY", identify(texts))
	p.PackageExternalReferences = purl(m.path, m.version)
	if m.sum != "" {
		p.PackageSourceInfo = "Go module with the sum " + m.sum
	}
	return p
}

func moduleID(m module) common.ElementID { return elementID("Module", m.path, m.version) }

func programID(p program) common.ElementID { return elementID("Program", p.name, p.arch) }

var notInIDs = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

// elementID returns a readable ID. A hash makes it unique although IDs allow few
// characters.
func elementID(kind, name, version string) common.ElementID {
	sum := sha256.Sum256([]byte(name + "\x00" + version))
	return common.ElementID(notInIDs.ReplaceAllString(kind+"-"+name+"-"+version, "-") + "-" + hex.EncodeToString(sum[:4]))
}

func relate(doc *v2_3.Document, a common.ElementID, how string, b common.ElementID) {
	doc.Relationships = append(doc.Relationships, &v2_3.Relationship{
		RefA: common.DocElementID{ElementRefID: a}, Relationship: how, RefB: common.DocElementID{ElementRefID: b},
	})
}

// purl returns the package URL by which scanners identify a module.
func purl(path, version string) []*v2_3.PackageExternalReference {
	locator := "pkg:golang/" + strings.ToLower(path)
	if version != "" && version != "(devel)" {
		locator += "@" + url.QueryEscape(version)
	}
	return []*v2_3.PackageExternalReference{{
		Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL, Locator: locator,
	}}
}
