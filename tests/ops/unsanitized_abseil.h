// Abseil's containers have other members under the address sanitizer, but what they call in
// TensorFlow's library was compiled without it.
#undef __SANITIZE_ADDRESS__
#include "absl/base/config.h"
#define __SANITIZE_ADDRESS__ 1
