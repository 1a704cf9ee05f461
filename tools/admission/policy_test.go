package admission

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestCommittedFilesAreGenerated(t *testing.T) {
	policy, err := Policy()
	if err != nil {
		t.Fatal(err)
	}
	deny, err := Deny()
	if err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string][]byte{"policy.yaml": policy, "deny.yaml": deny} {
		got, err := os.ReadFile("../../deploy/admission/" + file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("deploy/admission/%s is not what the generator writes: run make generate", file)
		}
	}
}

// The rule for kinds that the policy does not know holds for those it does: only
// their scope would be wrong.
func TestGuessNamesAllBuiltinKinds(t *testing.T) {
	for _, k := range Builtin {
		if got := Guess(k.Kind); got != k.Resource {
			t.Errorf("%s/%s is guessed to be %s, and is %s", k.Group, k.Kind, got, k.Resource)
		}
	}
}

func TestKindsByHand(t *testing.T) {
	k, err := ParseKind("example.io/Gadget=gadgetry:Cluster")
	if err != nil {
		t.Fatal(err)
	}
	if want := (Kind{"example.io", "Gadget", "gadgetry", false}); k != want {
		t.Fatalf("parsed %+v, want %+v", k, want)
	}
	policy, err := Policy(k)
	if err != nil {
		t.Fatal(err)
	}
	_, cluster, ok := strings.Cut(string(policy), "name: clusterScoped")
	if !ok || !strings.Contains(cluster, "'example.io/Gadget': 'gadgetry',\n") {
		t.Error("the policy does not have the kind among those of the cluster's scope")
	}
	if _, err := Policy(k, k); err == nil {
		t.Error("a duplicate kind is accepted")
	}
}

func TestKindsThatCannotBe(t *testing.T) {
	for _, text := range []string{
		"", "Gadget=gadgets:Cluster", "example.io/Gadget", "example.io/Gadget=gadgets", "example.io/gadget=gadgets:Cluster",
		"example.io/Gadget=gadgets:cluster", "example.io/Gad'get=gadgets:Cluster", "exa'mple.io/Gadget=gadgets:Cluster",
		"example.io/Gadget=gad'gets:Cluster", "example.io/Gadget=a/b:Cluster", "example.io/Gadget=gadgets:Cluster\n",
	} {
		if k, err := ParseKind(text); err == nil {
			t.Errorf("%q is taken for %+v", text, k)
		}
	}
}

// FuzzParseKind: what is parsed cannot end a literal of CEL's, or of YAML's block.
func FuzzParseKind(f *testing.F) {
	f.Add("example.io/Gadget=gadgets:Cluster")
	f.Add("a/B=c:Namespaced")
	f.Fuzz(func(t *testing.T, text string) {
		k, err := ParseKind(text)
		if err != nil {
			return
		}
		if strings.ContainsAny(k.Group+k.Kind+k.Resource, "'\\\n\r\" {}") {
			t.Fatalf("%q is taken for %+v", text, k)
		}
	})
}

func TestGuessIsLowerCase(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.StringMatching(`[A-Z][A-Za-z0-9]{0,20}`).Draw(t, "kind")
		if got := Guess(kind); got != strings.ToLower(got) || !strings.HasSuffix(got, "s") {
			t.Fatalf("%s is guessed to be %s", kind, got)
		}
	})
}
