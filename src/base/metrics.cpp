#include "base/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <sstream>

namespace millrace {

struct Metrics::Registry {
  prometheus::Registry series;
};

void Counter::add(double amount) {
  counter_.Increment(amount);
}
double Counter::value() const {
  return counter_.Value();
}

void Gauge::set(double value) {
  gauge_.Set(value);
}
double Gauge::value() const {
  return gauge_.Value();
}

void Histogram::observe(double value) {
  histogram_.Observe(value);
}

std::vector<double> exponential_buckets(double first, double factor, int n) {
  std::vector<double> bounds;
  bounds.reserve(n);
  for (double bound = first; n > 0; --n, bound *= factor) {
    bounds.push_back(bound);
  }
  return bounds;
}

Metrics::Metrics() : registry_(std::make_unique<Registry>()) {}
Metrics::~Metrics() = default;

Counter Metrics::counter(const std::string& name,
                         const std::string& help,
                         const MetricLabels& labels) {
  auto& family = prometheus::BuildCounter().Name(name).Help(help).Register(registry_->series);
  return Counter(family.Add(labels));
}

Gauge Metrics::gauge(const std::string& name, const std::string& help, const MetricLabels& labels) {
  auto& family = prometheus::BuildGauge().Name(name).Help(help).Register(registry_->series);
  return Gauge(family.Add(labels));
}

Histogram Metrics::histogram(const std::string& name,
                             const std::string& help,
                             const std::vector<double>& buckets,
                             const MetricLabels& labels) {
  auto& family = prometheus::BuildHistogram().Name(name).Help(help).Register(registry_->series);
  return Histogram(family.Add(labels, buckets));
}

std::string Metrics::expose() const {
  std::ostringstream text;
  prometheus::TextSerializer().Serialize(text, registry_->series.Collect());
  return text.str();
}

}  // namespace millrace
