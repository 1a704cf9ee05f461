package config

import (
	_ "embed"
	"time"

	"github.com/ebb-agent/ebb/agent/configfile"
)

// DefaultYAML is the default configuration with every field explained.
//
//go:embed default.yaml
var DefaultYAML string

// Mode is what the controller does with its decisions.
type Mode string

// The modes.
const (
	Enforce Mode = "enforce"
	Observe Mode = "observe"
)

// Config is the whole configuration of ebb-controller; default.yaml explains it.
type Config struct {
	Mode               Mode           `json:"mode"`
	Paused             bool           `json:"paused"`
	CircuitBreaker     CircuitBreaker `json:"circuitBreaker"`
	Envelope           Envelope       `json:"envelope"`
	CollectorEnvelope  Envelope       `json:"collectorEnvelope"`
	Exclude            Exclude        `json:"exclude"`
	OrphanWithout      []string       `json:"orphanWithout"`
	ForegroundPatience Duration       `json:"foregroundPatience"`
	AggregatedAbsence  Duration       `json:"aggregatedAbsence"`
	DiscoveryInterval  Duration       `json:"discoveryInterval"`
	Collectors         Collectors     `json:"collectors"`
	Concurrency        Concurrency    `json:"concurrency"`
	RequestTimeout     Duration       `json:"requestTimeout"`
	ShutdownGrace      Duration       `json:"shutdownGrace"`
	LeaderElection     LeaderElection `json:"leaderElection"`
	Server             Server         `json:"server"`
	Log                Log            `json:"log"`
}

// CircuitBreaker bounds the deletions within a window of time.
type CircuitBreaker struct {
	Deletions int      `json:"deletions"`
	Window    Duration `json:"window"`
}

// Envelope bounds the deletions of one cascade: a burst, and a rate after it.
type Envelope struct {
	Burst     int `json:"burst"`
	PerMinute int `json:"perMinute"`
}

// Exclude names the types and namespaces that ebb never acts on.
type Exclude struct {
	Types      []string `json:"types"`
	Namespaces []string `json:"namespaces"`
}

// Concurrency bounds the requests in flight.
type Concurrency struct {
	Start int `json:"start"`
	Max   int `json:"max"`
}

// LeaderElection configures how one of several instances is chosen.
type LeaderElection struct {
	Enabled       bool     `json:"enabled"`
	Namespace     string   `json:"namespace"`
	Name          string   `json:"name"`
	LeaseDuration Duration `json:"leaseDuration"`
	RenewDeadline Duration `json:"renewDeadline"`
	RetryPeriod   Duration `json:"retryPeriod"`
}

// JournalName is the name of the journal of orphaned owners, in the same namespace.
func (l LeaderElection) JournalName() string { return l.Name + "-orphans" }

// Server configures the servers for metrics, pages and probes, and the admin socket.
type Server struct {
	Address       string `json:"address"`
	HealthAddress string `json:"healthAddress"`
	WebConfigFile string `json:"webConfigFile"`
	AdminSocket   string `json:"adminSocket"`
}

// Log configures logging.
type Log struct {
	Level  string `json:"level"`
	Format string `json:"format"`
}

// Default is the configuration that an empty file means.
func Default() Config {
	return Config{
		Mode:               Observe,
		CircuitBreaker:     CircuitBreaker{Deletions: 50000, Window: Duration(10 * time.Minute)},
		Envelope:           Envelope{Burst: 10000, PerMinute: 1200},
		CollectorEnvelope:  Envelope{Burst: 10000, PerMinute: 2400},
		Exclude:            Exclude{Types: []string{}, Namespaces: []string{}},
		OrphanWithout:      []string{"*.metrics.k8s.io", "*.custom.metrics.k8s.io", "*.external.metrics.k8s.io"},
		ForegroundPatience: Duration(time.Minute),
		AggregatedAbsence:  Duration(2 * time.Minute),
		DiscoveryInterval:  Duration(5 * time.Minute),
		Collectors:         defaultCollectors(),
		Concurrency:        Concurrency{Start: 16, Max: 32},
		RequestTimeout:     Duration(30 * time.Second),
		ShutdownGrace:      Duration(5 * time.Second),
		LeaderElection: LeaderElection{
			Enabled: true, Namespace: "ebb-system", Name: "ebb-controller",
			LeaseDuration: Duration(15 * time.Second), RenewDeadline: Duration(10 * time.Second), RetryPeriod: Duration(2 * time.Second),
		},
		Server: Server{Address: "127.0.0.1:9479", AdminSocket: "/run/ebb/controller.sock"},
		Log:    Log{Level: "info", Format: "json"},
	}
}

// Duration is a time.Duration written as Go and Kubernetes write it: "12h45m".
type Duration = configfile.Duration
