package containerd

import (
	"strings"
	"time"
)

// The labels that containerd's garbage collector understands.
const (
	labelRoot      = "containerd.io/gc.root"
	labelExpire    = "containerd.io/gc.expire"
	labelFlat      = "containerd.io/gc.flat"
	labelRef       = "containerd.io/gc.ref."
	labelBackRef   = "containerd.io/gc.bref."
	labelCondition = "containerd.io/gc.cond.snapshot"
)

// objectKind is a kind of object in containerd's metadata.
type objectKind uint8

const (
	kindImage objectKind = iota
	kindContent
	kindSnapshot // named "snapshotter/key"
	kindContainer
	kindBlob   // bytes in the content store, without a namespace
	kindIngest // content that is incomplete
)

// object names one thing in containerd's metadata.
type object struct {
	kind      objectKind
	namespace string
	name      string
}

// link is one reference label: the object that carries the label keeps another one, or (back) is
// kept by it.
type link struct {
	kind objectKind
	name string
	back bool
}

// parseLink reads a reference label. As in containerd, a kind may be followed
// by "." or "/" and anything, so that one object can carry several.
func parseLink(key, value string) (link, bool) {
	if value == "" {
		return link{}, false
	}
	if rest, ok := strings.CutPrefix(key, labelCondition); ok {
		return parseCondition(rest, value)
	}
	rest, back := strings.CutPrefix(key, labelBackRef)
	if !back {
		var ok bool
		if rest, ok = strings.CutPrefix(key, labelRef); !ok {
			return link{}, false
		}
	}
	if snapshotter, ok := strings.CutPrefix(rest, "snapshot."); ok {
		snapshotter, _, _ = strings.Cut(snapshotter, "/")
		return link{kind: kindSnapshot, name: snapshotter + "/" + value, back: back}, true
	}
	word := rest
	if i := strings.IndexAny(rest, "./"); i >= 0 {
		word = rest[:i]
	}
	switch {
	case word == "content":
		return link{kind: kindContent, name: value, back: back}, true
	case word == "image":
		return link{kind: kindImage, name: value, back: back}, true
	case word == "container" && back:
		return link{kind: kindContainer, name: value, back: true}, true
	}
	return link{}, false
}

// parseCondition reads "usedat<10m|key": a snapshot that is kept while it was
// used recently. The condition itself does not matter here: a snapshot that no
// longer meets it is collected anyway, and one that does is kept by this object.
func parseCondition(rest, value string) (link, bool) {
	snapshotter, _, _ := strings.Cut(strings.TrimLeft(rest, "./"), "/")
	_, key, ok := strings.Cut(value, "|")
	if !ok || snapshotter == "" || key == "" {
		return link{}, false
	}
	return link{kind: kindSnapshot, name: snapshotter + "/" + key}, true
}

// isRoot reports whether the labels make an object a root of the garbage collector.
func isRoot(labels map[string]string) bool {
	for key := range labels {
		if strings.HasPrefix(key, labelRoot) {
			return true
		}
	}
	return false
}

// isExpired reports whether a lease or an image no longer keeps anything. An unreadable date never
// comes, as in containerd.
func isExpired(labels map[string]string, now time.Time) bool {
	value, ok := labels[labelExpire]
	if !ok {
		return false
	}
	at, err := time.Parse(time.RFC3339, value)
	return err == nil && now.After(at)
}

// parseResource reads one resource of a lease: its kind and its name in the graph; false if the
// kind is unknown.
func parseResource(kind, id string) (objectKind, string, bool) {
	snapshotter, ok := strings.CutPrefix(kind, "snapshots/")
	switch {
	case ok:
		return kindSnapshot, snapshotter + "/" + id, true
	case kind == "content":
		return kindContent, id, true
	case kind == "images":
		return kindImage, id, true
	case kind == "ingests":
		return kindIngest, id, true
	}
	return 0, "", false
}
