package containerd

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	eventsapi "github.com/containerd/containerd/api/events"
	"github.com/containerd/containerd/v2/core/events"
	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/typeurl/v2"

	"github.com/ebb-agent/ebb/runtime/inventory"
)

func TestLayerDirs(t *testing.T) {
	overlay := func(options ...string) []mount.Mount {
		return []mount.Mount{{Type: "overlay", Source: "overlay", Options: options}}
	}
	bind := func(source string, options ...string) []mount.Mount {
		return []mount.Mount{{Type: "bind", Source: source, Options: options}}
	}
	tests := []struct {
		name   string
		mounts []mount.Mount
		bind   bool
		want   string // "" is unsupported
	}{
		{"view of many", overlay("index=off", "lowerdir=/s/3/fs:/s/2/fs:/s/1/fs"), true, "/s/3/fs /s/2/fs /s/1/fs"},
		{"container", overlay("workdir=/s/4/work", "upperdir=/s/4/fs", "lowerdir=/s/1/fs"), false, "/s/1/fs"},
		{"escaped colon", overlay(`lowerdir=/a\:b/fs:/c`), true, "/a:b/fs /c"},
		{"escaped backslash", overlay(`lowerdir=/a\\:/c`), true, `/a\ /c`},
		{"backslash at the end", overlay(`lowerdir=/a\`), true, "/a"},
		{"view of one", bind("/s/1/fs", "ro", "rbind"), true, "/s/1/fs"},
		{"a copy", bind("/s/2", "rw", "rbind"), true, ""},
		{"a container's copy", bind("/s/2", "ro", "rbind"), false, ""},
		{"relative", overlay("lowerdir=s/1"), true, ""},
		{"relative below", overlay("lowerdir=/s/2:s/1"), true, ""},
		{"empty", overlay("lowerdir="), true, ""},
		{"no lower", overlay("upperdir=/a"), true, ""},
		{"erofs", []mount.Mount{{Type: "erofs", Source: "/l.erofs"}, {Type: "format/overlay"}}, true, ""},
		{"device", []mount.Mount{{Type: "ext4", Source: "/dev/mapper/x"}}, true, ""},
		{"none", nil, true, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := layerDirs(tt.mounts, tt.bind)
			if (err == nil) != (tt.want != "") || err == nil && strings.Join(got, " ") != tt.want {
				t.Errorf("got %q, %v; want %q", got, err, tt.want)
			}
			if err != nil && !errors.Is(err, inventory.ErrUnsupported) {
				t.Errorf("got %v, want unsupported", err)
			}
		})
	}
}

func FuzzLowers(f *testing.F) {
	f.Add(`/a\:b:/c`)
	f.Add(`\`)
	f.Fuzz(func(t *testing.T, list string) {
		if got := strings.Join(lowers(list), ":"); len(got) > len(list) {
			t.Errorf("%q became longer: %q", list, got)
		}
		// What is escaped comes back as it was.
		escaped := strings.NewReplacer(`\`, `\\`, ":", `\:`).Replace(list)
		if got := lowers(escaped + ":/other:" + escaped); !slices.Equal(got, []string{list, "/other", list}) {
			t.Errorf("got %q, want %q twice", got, list)
		}
	})
}

func TestParseLink(t *testing.T) {
	tests := []struct {
		key, value string
		want       link // zero: none
	}{
		{"containerd.io/gc.ref.content", "sha256:a", link{kind: kindContent, name: "sha256:a"}},
		{"containerd.io/gc.ref.content.m.0", "sha256:a", link{kind: kindContent, name: "sha256:a"}},
		{"containerd.io/gc.ref.content/x", "sha256:a", link{kind: kindContent, name: "sha256:a"}},
		{"containerd.io/gc.ref.contents", "sha256:a", link{}},
		{"containerd.io/gc.ref.image.x", "n", link{kind: kindImage, name: "n"}},
		{"containerd.io/gc.ref.snapshot.overlayfs", "k", link{kind: kindSnapshot, name: "overlayfs/k"}},
		{"containerd.io/gc.ref.snapshot.overlayfs/a", "k", link{kind: kindSnapshot, name: "overlayfs/k"}},
		{"containerd.io/gc.ref.container", "c", link{}}, // only backwards
		{"containerd.io/gc.bref.container", "c", link{kind: kindContainer, name: "c", back: true}},
		{"containerd.io/gc.bref.container.a", "c", link{kind: kindContainer, name: "c", back: true}},
		{"containerd.io/gc.bref.content", "d", link{kind: kindContent, name: "d", back: true}},
		{"containerd.io/gc.bref.image/a", "i", link{kind: kindImage, name: "i", back: true}},
		{"containerd.io/gc.bref.snapshot.native", "k", link{kind: kindSnapshot, name: "native/k", back: true}},
		{"containerd.io/gc.cond.snapshot.overlayfs/x", "usedat<10m|key|with bar", link{kind: kindSnapshot, name: "overlayfs/key|with bar"}},
		{"containerd.io/gc.cond.snapshot.overlayfs", "usedat<10m", link{}},
		{"containerd.io/gc.cond.snapshot", "usedat<10m|key", link{}},
		{"containerd.io/gc.root", "true", link{}},
		{"containerd.io/gc.ref.content", "", link{}},
		{"", "", link{}},
	}
	for _, tt := range tests {
		got, ok := parseLink(tt.key, tt.value)
		if got != tt.want || ok != (tt.want != link{}) {
			t.Errorf("%s=%s: got %+v, %v; want %+v", tt.key, tt.value, got, ok, tt.want)
		}
	}
}

func FuzzParseLink(f *testing.F) {
	f.Add("containerd.io/gc.ref.snapshot.", "x")
	f.Add("containerd.io/gc.bref.container.", "x")
	f.Add("containerd.io/gc.cond.snapshot./", "|")
	f.Fuzz(func(t *testing.T, key, value string) {
		l, ok := parseLink(key, value)
		if ok && (l.name == "" || !strings.HasSuffix(l.name, value) && !strings.HasPrefix(key, labelCondition)) {
			t.Errorf("%q=%q names %q", key, value, l.name)
		}
	})
}

func TestIsExpired(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for value, want := range map[string]bool{
		"2026-01-02T03:04:04Z":      true,
		"2026-01-02T03:04:06Z":      false,
		"2026-01-02T05:04:04+02:00": true,
		"never":                     false,
		"":                          false,
	} {
		if got := isExpired(map[string]string{labelExpire: value}, now); got != want {
			t.Errorf("%q: got %v", value, got)
		}
	}
	if isExpired(nil, now) {
		t.Error("expired without a date")
	}
}

func TestChainOf(t *testing.T) {
	a, b := "sha256:"+strings.Repeat("a", 64), "sha256:"+strings.Repeat("b", 64)
	tests := []struct {
		name, config, want string
		bad                bool
	}{
		{name: "one", config: `{"rootfs":{"diff_ids":["` + a + `"]}}`, want: a},
		// The chain ID of two is the digest of "a b".
		{name: "two", config: `{"rootfs":{"diff_ids":["` + a + `","` + b + `"]}}`,
			want: "sha256:ccd722928bd92476ba1745586fed6e45a102504185ad88cd89e01ff116fd146c"},
		{name: "none", config: `{}`},
		{name: "no digest", config: `{"rootfs":{"diff_ids":["../x"]}}`, bad: true},
		{name: "short", config: `{"rootfs":{"diff_ids":["sha256:aa"]}}`, bad: true},
		{name: "no JSON", config: `[`, bad: true},
		{name: "too many", config: `{"rootfs":{"diff_ids":["` + strings.Repeat(a+`","`, maxLayers) + a + `"]}}`, bad: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := chainOf([]byte(tt.config))
			if got != tt.want || (err != nil) != tt.bad {
				t.Errorf("got %q, %v; want %q", got, err, tt.want)
			}
		})
	}
}

func FuzzChainOf(f *testing.F) {
	f.Add([]byte(`{"rootfs":{"diff_ids":["sha256:` + strings.Repeat("a", 64) + `"]}}`))
	f.Add([]byte(`{"rootfs":{"diff_ids":["sha512:x"]}}`))
	f.Fuzz(func(t *testing.T, config []byte) {
		if chain, err := chainOf(config); err != nil && chain != "" {
			t.Errorf("%q with %v", chain, err)
		}
	})
}

func TestDecode(t *testing.T) {
	tests := []struct {
		payload any
		want    inventory.Event
		ok      bool
	}{
		{&eventsapi.ImageCreate{Name: "n"}, inventory.Event{Kind: inventory.EventImage, Image: "n"}, true},
		{&eventsapi.ImageUpdate{Name: "n"}, inventory.Event{Kind: inventory.EventImage, Image: "n"}, true},
		{&eventsapi.ImageDelete{Name: "n"}, inventory.Event{Kind: inventory.EventImage, Image: "n"}, true},
		{&eventsapi.ContainerCreate{ID: "c", Image: "n"}, inventory.Event{Kind: inventory.EventContainer, Container: "c", Image: "n", Used: true}, true},
		{&eventsapi.ContainerDelete{ID: "c"}, inventory.Event{Kind: inventory.EventContainer, Container: "c"}, true},
		{&eventsapi.TaskStart{ContainerID: "c"}, inventory.Event{Kind: inventory.EventTask, Container: "c", Used: true}, true},
		{&eventsapi.TaskExit{ContainerID: "c", ID: "c"}, inventory.Event{Kind: inventory.EventTask, Container: "c", Ended: true, Used: true}, true},
		{&eventsapi.TaskExit{ContainerID: "c", ID: "exec"}, inventory.Event{}, false},
		{&eventsapi.TaskDelete{ContainerID: "c"}, inventory.Event{Kind: inventory.EventTask, Container: "c", Ended: true}, true},
		{&eventsapi.SnapshotPrepare{Key: "k"}, inventory.Event{}, false},
	}
	at := time.Unix(1e9, 5)
	for _, tt := range tests {
		body, err := typeurl.MarshalAny(tt.payload)
		if err != nil {
			t.Fatal(err)
		}
		got, ok := decode(&events.Envelope{Namespace: "ns", Topic: "/x", Event: body, Timestamp: at})
		if ok != tt.ok {
			t.Errorf("%T: %+v, %v", tt.payload, got, ok)
		}
		if tt.want.Namespace, tt.want.At = "ns", at; ok && got != tt.want {
			t.Errorf("%T: got %+v, want %+v", tt.payload, got, tt.want)
		}
	}
	if _, ok := decode(nil); ok {
		t.Error("nothing decoded to something")
	}
	if _, ok := decode(&events.Envelope{Topic: "/x"}); ok {
		t.Error("an empty envelope decoded to something")
	}
}

func TestMajorVersion(t *testing.T) {
	for version, want := range map[string]int{
		"v2.4.2": 2, "2.0.0-rc.1": 2, "1.6.20~ds1": 1, "": 0, "v": 0, "unknown": 0, "-3.1": 0, "2": 0,
	} {
		if got := majorVersion(version); got != want {
			t.Errorf("%q: got %d, want %d", version, got, want)
		}
	}
}

func TestRoundUp(t *testing.T) {
	for n, want := range map[uint64]uint64{0: 0, 1: 4096, 4096: 4096, 4097: 8192, math.MaxUint64: math.MaxUint64} {
		if got := roundUp(n); got != want {
			t.Errorf("%d: got %d, want %d", n, got, want)
		}
	}
}

func TestUserFilters(t *testing.T) {
	s := &space{name: criNamespace, images: []imageRecord{
		{name: "a:1", content: imageContent{id: "i"}}, {name: "b:1", content: imageContent{id: "j"}},
	}}
	got, any := userFilters(s, []string{"i"}, map[string]string{"c1": "i", "c2": "j"})
	if want := []string{`image=="a:1"`, `id=="c1"`}; !any || !slices.Equal(got, want) {
		t.Errorf("got %q, %v; want %q", got, any, want)
	}
	if got, any := userFilters(s, []string{"k"}, nil); any || got != nil {
		t.Errorf("got %q, %v for an image nobody names", got, any)
	}
	// A name that filters cannot carry: look at all containers.
	s.images[0].name = "a\n\""
	if got, any := userFilters(s, []string{"i"}, nil); !any || got != nil {
		t.Errorf("got %q, %v for a hostile name", got, any)
	}
}
