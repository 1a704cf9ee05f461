package result

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestSection(t *testing.T) {
	const a, b = "<!-- begin a -->\n\nold\n\n<!-- end a -->\n", "<!-- begin b -->\n\nB\n\n<!-- end b -->\n"
	const changed = "<!-- begin a -->\n\nnew\n\n<!-- end a -->\n"
	for name, c := range map[string]struct{ before, section, text, want, err string }{
		"first":         {"# H\n", "a", "new\n", "# H\n\n" + changed, ""},
		"replaced":      {"# H\n\n" + a + "\nbetween\n" + b, "a", "new", "# H\n\n" + changed + "\nbetween\n" + b, ""},
		"the last one":  {b + a, "a", "new", b + changed, ""},
		"at the end":    {"x\n\n\n" + b, "a", "new", "x\n\n\n" + b + "\n" + changed, ""},
		"no end":        {"<!-- begin a -->\n", "a", "new", "", "marks is missing"},
		"no begin":      {"<!-- end a -->\n", "a", "new", "", "marks is missing"},
		"turned round":  {"<!-- end a -->\n<!-- begin a -->\n", "a", "new", "", "wrong way round"},
		"twice":         {a + a, "a", "new", "", "more than once"},
		"marks in text": {"", "a", "x <!-- end a -->", "", "comment in it"},
		"a bad name":    {"", "a -->", "x", "", "not a name"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := withSection(c.before, c.section, c.text)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("err = %v, want one with %q", err, c.err)
				}
				return
			}
			if err != nil || got != c.want {
				t.Fatalf("got %q, %v\nwant %q", got, err, c.want)
			}
		})
	}
}

// Whatever is written in which order: each section has its last text, in the order of
// the first writes, and what people wrote at the top stays.
func TestSectionsKeepApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole := "by hand\n"
		var order []string
		texts := make(map[string]string)
		for range rapid.IntRange(1, 20).Draw(t, "writes") {
			name := rapid.SampledFrom([]string{"a", "ab", "b", "c-1"}).Draw(t, "name")
			text := rapid.StringMatching(`[a-c#|\n ]{0,20}`).Draw(t, "text")
			if !slices.Contains(order, name) {
				order = append(order, name)
			}
			texts[name] = strings.TrimSpace(text)
			var err error
			if whole, err = withSection(whole, name, text); err != nil {
				t.Fatal(err)
			}
		}
		want := "by hand\n"
		for _, name := range order {
			want += "\n<!-- begin " + name + " -->\n\n" + texts[name] + "\n\n<!-- end " + name + " -->\n"
		}
		if whole != want {
			t.Fatalf("got %q\nwant %q", whole, want)
		}
	})
}

func TestSectionWritesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "made", "R.md")
	for _, text := range []string{"one", "two"} {
		if err := Section(path, "node", text); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if want := reportHead + "\n<!-- begin node -->\n\ntwo\n\n<!-- end node -->\n"; err != nil || string(got) != want {
		t.Fatalf("got %q, %v; want %q", got, err, want)
	}
	if err := os.WriteFile(path, []byte("<!-- begin node -->\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Section(path, "node", "three"); err == nil {
		t.Fatal("a file that nobody understands was written over")
	}
	if got, _ := os.ReadFile(path); string(got) != "<!-- begin node -->\n" {
		t.Fatalf("the file was changed: %q", got)
	}
}
