#include "base/digest.h"

#include <openssl/evp.h>

#include <cstring>
#include <random>

#include "base/check.h"

namespace millrace {

struct Sha256::Context {
  ~Context() {
    EVP_MD_CTX_free(state);
    EVP_MD_free(algorithm);
  }
  bool begin() { return EVP_DigestInit_ex2(state, algorithm, nullptr) == 1; }

  EVP_MD* algorithm = EVP_MD_fetch(nullptr, "SHA256", nullptr);  // once: fetching is slow
  EVP_MD_CTX* state = EVP_MD_CTX_new();
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  MR_CHECK(context_->algorithm != nullptr && context_->state != nullptr && context_->begin(),
           "no SHA-256");
}

Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::add(std::span<const std::byte> bytes) {
  MR_CHECK(EVP_DigestUpdate(context_->state, bytes.data(), bytes.size()) == 1, "SHA-256 failed");
}

void Sha256::add_part(std::span<const std::byte> part) {
  const uint64_t size = part.size();
  add(std::as_bytes(std::span(&size, 1)));
  add(part);
}

Digest256 Sha256::finish() {
  Digest256 digest;
  const bool is_done =
      EVP_DigestFinal_ex(
          context_->state, reinterpret_cast<unsigned char*>(digest.data()), nullptr) == 1;
  MR_CHECK(is_done && context_->begin(), "SHA-256 failed");
  return digest;
}

KeyedDigest::Key KeyedDigest::random_key() {
  std::random_device device;
  Key key;
  for (size_t i = 0; i < key.size(); i += sizeof(uint32_t)) {
    const uint32_t bits = device();
    std::memcpy(key.data() + i, &bits, sizeof(bits));
  }
  return key;
}

Digest128 KeyedDigest::operator()(std::initializer_list<std::span<const std::byte>> parts) {
  sha_.add(key_);
  for (const std::span<const std::byte> part : parts) {
    sha_.add_part(part);
  }
  const Digest256 bytes = sha_.finish();
  Digest128 digest;
  std::memcpy(&digest.low, bytes.data(), sizeof(digest.low));
  std::memcpy(&digest.high, bytes.data() + sizeof(digest.low), sizeof(digest.high));
  return digest;
}

}  // namespace millrace
