package inventory_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/ebb-agent/ebb/runtime/inventory"
)

func TestFind(t *testing.T) {
	id := func(c string) string { return "sha256:" + strings.Repeat(c, 64) }
	images := []inventory.Image{
		{ID: id("a"), References: []string{"docker.io/library/busybox:1.36", "docker.io/library/busybox@" + id("1")}},
		{ID: id("b"), References: []string{"docker.io/library/busybox:1.37"}},
		{ID: id("c"), References: []string{"example.com:5000/team/app:v1"}},
		{ID: "sha256:aaab" + strings.Repeat("0", 60), References: []string{"not a reference \x1b[31m"}},
		{ID: id("e"), References: []string{"other.example/team/app:v1"}},
	}
	for name, want := range map[string][]int{
		"docker.io/library/busybox:1.36": {0},
		"busybox:1.36":                   {0},
		"busybox":                        {0, 1},
		"busybox@" + id("1"):             {0},
		"docker.io/library/busybox":      {0, 1},
		"example.com:5000/team/app":      {2},
		"team/app":                       nil,
		"app":                            {2, 4},
		"app:v1":                         {2, 4},
		"aaa":                            nil, // too short
		"aaaa":                           {0},
		"sha256:aaab":                    {3},
		id("b"):                          {1},
		"sha256:bbbb":                    {1},
		"not a reference \x1b[31m":       {3},
		"":                               nil,
		"BUSYBOX":                        nil,
	} {
		var got []int
		for _, i := range inventory.Find(images, name) {
			got = append(got, slices.IndexFunc(images, func(j inventory.Image) bool { return j.ID == i.ID }))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: found %v, want %v", name, got, want)
		}
	}
}
