package inventory

import (
	"slices"
	"strings"

	"github.com/distribution/reference"
)

// shortestID is the minimum number of hex digits of an ID that Find accepts.
const shortestID = 4

// Find returns the images that a name given by a person means. The name is an ID or its first
// digits, with or without "sha256:"; a reference; or a reference as Docker shortens it, with or
// without tag and digest ("busybox", "busybox:1.36", "example.com/team/app"). For an exact
// reference or ID, Find returns one image.
func Find(images []Image, name string) []Image {
	if n := slices.IndexFunc(images, func(i Image) bool { return i.ID == name || slices.Contains(i.References, name) }); n >= 0 {
		return images[n : n+1 : n+1]
	}
	digits := strings.TrimPrefix(name, "sha256:")
	isID := len(digits) >= shortestID && strings.Trim(digits, "0123456789abcdef") == ""
	var found []Image
	for _, i := range images {
		if isID && strings.HasPrefix(i.ID, "sha256:"+digits) ||
			slices.ContainsFunc(i.References, func(r string) bool { return slices.Contains(shortened(r), name) }) {
			found = append(found, i)
		}
	}
	return found
}

// shortened returns the short forms of a reference.
func shortened(r string) []string {
	named, err := reference.ParseNormalizedNamed(r)
	if err != nil {
		return nil
	}
	path, tag := reference.Path(named), ""
	if t, ok := named.(reference.Tagged); ok {
		tag = ":" + t.Tag()
	}
	base := path[strings.LastIndexByte(path, '/')+1:]
	return []string{reference.FamiliarString(named), reference.FamiliarName(named), reference.FamiliarName(named) + tag, named.Name(), base, base + tag}
}
