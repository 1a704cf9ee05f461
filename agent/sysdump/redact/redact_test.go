package redact

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestSensitive(t *testing.T) {
	for key, want := range map[string]bool{
		"password": true, "DB_PASSWORD": true, "clientSecret": true, "bearer-token": true, "Authorization": true, "apiKey": true,
		"client-key-data": true, "basicAuth": true, "MYSQL_PWD": true, "tokens": true,
		"tokenFile": false, "kubelet-token-file": false, "secretName": false, "imagePullSecretsRef": false, "expirationSeconds": false,
		"key": false, "reason": false, "author": false, "": false,
	} {
		if Sensitive(key) != want {
			t.Errorf("%s: %v", key, !want)
		}
	}
}

// TestText: what goes, and what stays readable.
func TestText(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`time=1 level=INFO msg="list images" reason="token file"`, `time=1 level=INFO msg="list images" reason="token file"`},
		{`docker.io/library/busybox@sha256:0123 docker-pullable://busybox@sha256:01`, `docker.io/library/busybox@sha256:0123 docker-pullable://busybox@sha256:01`},
		{strings.Repeat("0123456789abcdef", 4) + "\n", strings.Repeat("0123456789abcdef", 4) + "\n"},
		{`pods.kubelet.tokenFile: no such file`, `pods.kubelet.tokenFile: no such file`},
		{`Authorization: Bearer abc.def-1`, `Authorization: [redacted]`},
		{`-H "Authorization: Basic dXNlcjpwYXNz" -v`, `-H "Authorization: [redacted]" -v`},
		{`sent Bearer abcdef to it`, `sent Bearer [redacted] to it`},
		{`{"msg":"x","token":"a\"b c","n":1}`, `{"msg":"x","token":"[redacted]","n":1}`},
		{`{"msg":"{\"token\":\"abc\",\"n\":1}"}`, `{"msg":"{\"token\":\"[redacted]\",\"n\":1}"}`},
		{`{"tokens": ["a", ["b"]], "n": 1}`, `{"tokens": [redacted], "n": 1}`},
		{`{"secret": {"secretName": "s"}}`, `{"secret": {"secretName": "s"}}`},
		{`password=hunter2 user=x`, `password=[redacted] user=x`},
		{`password: two words # and more`, `password: [redacted]`},
		{`--password hunter2 --token-file /a`, `--password [redacted] --token-file /a`},
		{`https://u:p@example.com/x?access_token=abc&y=1 z`, `https://[redacted]@example.com/x?access_token=[redacted] z`},
		{`eyJhbGciOiJSUzI1NiIsImtpZCI6IiJ9.eyJpc3MiOiJrIn0.c2ln ok`, `[redacted] ok`},
		{"a\n-----BEGIN RSA PRIVATE KEY-----\nMIIB\n-----END RSA PRIVATE KEY-----\nb", "a\n[redacted]\nb"},
		{`"ca":"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n","b":1`, `"ca":"[redacted]\n","b":1`},
		{"-----BEGIN PRIVATE KEY-----\nMIIB", "[redacted]"},
		{"MIIBsecret+/==\n-----END PRIVATE KEY-----\nb", "[redacted]\nb"},
	} {
		if got := Text(c.in, Counts{}); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.in, got, c.want)
		}
		if again := Text(c.want, Counts{}); again != c.want {
			t.Errorf("%s\nagain %s", c.want, again)
		}
	}
}

func TestYAML(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"# a comment with hunter2\nmode: enforce\nsize: 1000000\n", "mode: enforce\nsize: 1000000\n"},
		{"password: two words\ntokenFile: /a\n", "password: '[redacted]'\ntokenFile: /a\n"},
		{"password: |\n  line\n  line\nb: 1\n", "b: 1\npassword: '[redacted]'\n"},
		{"args: [--password, hunter2, --v=2]\n", "args:\n- --password\n- '[redacted]'\n- --v=2\n"},
		{"env:\n- {name: DB_PASSWORD, value: hunter2}\n", "env:\n- name: DB_PASSWORD\n  value: '[redacted]'\n"},
		{"automountServiceAccountToken: true\nsecretKeyRef: {name: a, key: b}\n", "automountServiceAccountToken: true\nsecretKeyRef:\n  key: b\n  name: a\n"},
		{"a: 1\na: 2\npassword: |\n  x\n  y\nb: [\n", "# no YAML of keys and values\na: 1\na: 2\npassword: [redacted]\nb: [\n"},
		{"inner: |\n  password: |\n    x\n  mode: y\n", "inner: |\n  password: [redacted]\n  mode: y\n"},
		{"", "# no YAML of keys and values\n"},
	} {
		if got := string(YAML([]byte(c.in), Counts{})); got != c.want {
			t.Errorf("%s\n got %q\nwant %q", c.in, got, c.want)
		}
	}
}

// secret is a word that nothing else in a test is made of.
var secret = rapid.Custom(func(t *rapid.T) string {
	return "s3cr3t" + rapid.StringMatching(`[A-Za-z0-9+/._~-]{6,40}`).Draw(t, "secret") + "x"
})

// TestPlanted: a secret in one of the shapes in which they come does not survive, whatever
// stands around it.
func TestPlanted(t *testing.T) {
	shapes := []string{
		"password=%s", "password: %s", `"password":"%s"`, `{\"apiKey\": \"%s\"}`, "--token=%s", "--token %s", "Authorization: Bearer %s", "bearer %s",
		"https://user:%s@example.com/", "clientSecret = '%s'", "MYSQL_PWD=%s", "-----BEGIN PRIVATE KEY-----\n%s\n-----END PRIVATE KEY-----", "Cookie: session=%s; a=b",
	}
	rapid.Check(t, func(t *rapid.T) {
		word := secret.Draw(t, "word")
		filler := rapid.StringMatching(`[a-z =:"{}\[\],\n]{0,20}`)
		text := filler.Draw(t, "before") + "\n" + fmt.Sprintf(rapid.SampledFrom(shapes).Draw(t, "shape"), word) + "\n" + filler.Draw(t, "after")
		counts := Counts{}
		if got := Text(text, counts); strings.Contains(got, word) || len(counts) == 0 {
			t.Fatalf("%q\nbecame %q, %v", text, got, counts)
		}
		if got := YAML([]byte(text), Counts{}); strings.Contains(string(got), word) {
			t.Fatalf("%q\nas YAML became %q", text, got)
		}
	})
}

func FuzzText(f *testing.F) {
	f.Add("password=\"a\\\"b\" token: [x")
	f.Fuzz(func(t *testing.T, s string) {
		once := Text(s, Counts{})
		if strings.Contains(once, "password=hunter2") {
			t.Errorf("%q became %q", s, once)
		}
		YAML([]byte(s), Counts{})
	})
}

// TestLongLine: a page is one long line, with many words that keys have.
func TestLongLine(t *testing.T) {
	const words = 1 << 13
	line := strings.Repeat(`{"image":"secrets/token-manager","token":"abc"},`, words)
	counts := Counts{}
	if got := Text(line, counts); counts[Value] != words || strings.Contains(got, "abc") {
		t.Errorf("%v", counts)
	}
}

// BenchmarkText reads what an agent logs.
func BenchmarkText(b *testing.B) {
	line := `{"time":"2026-11-24T09:38:14Z","level":"INFO","msg":"image removed","reason":"threshold","image":"registry.example.com/team/app:1.2.3"}` + "\n"
	text := strings.Repeat(strings.Repeat(line, 100)+"token=abc\n", 80)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		Text(text, Counts{})
	}
}
