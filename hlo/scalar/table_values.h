// Tables of sixteen numbers of f32 and f64; written by tools/tables.py.
#ifndef LAMINA_HLO_SCALAR_TABLE_VALUES_H_
#define LAMINA_HLO_SCALAR_TABLE_VALUES_H_

#include <cstdint>

namespace lamina::hlo::scalar {

// A function of 0 <= a <= top, cut into pieces by digits of y = a * unit + 1, 1 <= y < 16: two of its
// exponent and the first one or two of its fraction. The tables hold, for each piece, a center, the
// function's value there, and the coefficients of (f(a) - value) / (a - center). Odd functions of |x| that
// grow to 1 are 1 beyond `top`; about 0 their center is -0, the only one with a sign, and their coefficients
// are those of (f(a) - a) / a.
struct Pieces {
  uint64_t first, tables;  // number of the table of centers, and how many there are
  int digits;              // of the fraction
  double unit, top;
};

inline constexpr Pieces kTanhPieces = {0, 10, 1, 0x1.a50d7a0000000p+0, 0x1.23d6f80000000p+3};
inline constexpr Pieces kErfPieces = {10, 10, 1, 0x1.84dc5a0000000p+1, 0x1.f9997a0000000p+1};
inline constexpr Pieces kScaledErfcPieces = {20, 8, 2, 0x1.7b72580000000p+0, 10.1};
// The number of the first table of each kind.
inline constexpr uint64_t kLogSteps = 28;  // c, -log(c) and the rest by the eighths of 21/32 <= m < 21/16
inline constexpr uint64_t kExpSteps = 31;  // 2^(i/4) and the rest
// Of those of f64: c, -log(c) as a multiple of 2^-22, so that its lower half is 0, and the rest; 2^(i/8) and
// the rest, of as many digits.
inline constexpr uint64_t kLogStepsDouble = 0, kExpStepsDouble = 3;

// clang-format off
inline constexpr float kSingleTables[][16] = {
    {0x1.b1a0fep-1F, 0x1.804da6p+0F, 0x1.356f7ap+1F, 0x1.d2ce32p+1F,
     0x1.5e30e2p+2F, 0x1.0a2b24p+3F, -0x0.0p+0F, -0x0.0p+0F,
     0x1.b1a0fep-1F, 0x1.804da6p+0F, 0x1.356f7ap+1F, 0x1.d2ce32p+1F,
     0x1.5e30e2p+2F, 0x1.0a2b24p+3F, -0x0.0p+0F, -0x0.0p+0F},
    {0x1.61014ap-1F, 0x1.cf8ba0p-1F, 0x1.f7ed1ap-1F, 0x1.ff4df0p-1F,
     0x1.fffb5ep-1F, 0x1.fffffcp-1F, 0x0.0p+0F, 0x0.0p+0F,
     0x1.61014ap-1F, 0x1.cf8ba0p-1F, 0x1.f7ed1ap-1F, 0x1.ff4df0p-1F,
     0x1.fffb5ep-1F, 0x1.fffffcp-1F, 0x0.0p+0F, 0x0.0p+0F},
    {0x1.0c9db8p-1F, 0x1.714b4ep-3F, 0x1.005342p-5F, 0x1.63e212p-9F,
     0x1.287eaep-14F, 0x1.fffffap-23F, 0x1.d5665cp-30F, 0x1.d5665cp-30F,
     0x1.0c9db8p-1F, 0x1.714b4ep-3F, 0x1.005342p-5F, 0x1.63e212p-9F,
     0x1.287eaep-14F, 0x1.fffffap-23F, 0x1.d5665cp-30F, 0x1.d5665cp-30F},
    {-0x1.7266d8p-2F, -0x1.4e584ep-3F, -0x1.f89102p-6F, -0x1.63664cp-9F,
     -0x1.28774ap-14F, -0x1.00057ep-22F, -0x1.6f819ap-23F, -0x1.6f819ap-23F,
     -0x1.7266d8p-2F, -0x1.4e584ep-3F, -0x1.f89102p-6F, -0x1.63664cp-9F,
     -0x1.28774ap-14F, -0x1.00057ep-22F, -0x1.6f819ap-23F, -0x1.6f819ap-23F},
    {0x1.313736p-4F, 0x1.673608p-4F, 0x1.45b76ep-6F, 0x1.d8952cp-10F,
     0x1.8ba940p-15F, 0x1.547254p-23F, -0x1.5554f6p-2F, -0x1.5554f6p-2F,
     0x1.313736p-4F, 0x1.673608p-4F, 0x1.45b76ep-6F, 0x1.d8952cp-10F,
     0x1.8ba940p-15F, 0x1.547254p-23F, -0x1.5554f6p-2F, -0x1.5554f6p-2F},
    {0x1.1b71c2p-4F, -0x1.9946cap-6F, -0x1.30cbf0p-7F, -0x1.d60212p-11F,
     -0x1.8bb4b6p-16F, -0x1.5585d2p-24F, 0x1.4b196ep-15F, 0x1.4b196ep-15F,
     0x1.1b71c2p-4F, -0x1.9946cap-6F, -0x1.30cbf0p-7F, -0x1.d60212p-11F,
     -0x1.8bb4b6p-16F, -0x1.5585d2p-24F, 0x1.4b196ep-15F, 0x1.4b196ep-15F},
    {-0x1.f37a28p-5F, -0x1.56aeb6p-9F, 0x1.a79b22p-9F, 0x1.73a8a6p-12F,
     0x1.36da0ep-17F, 0x1.1e9006p-25F, 0x1.0f9fb0p-3F, 0x1.0f9fb0p-3F,
     -0x1.f37a28p-5F, -0x1.56aeb6p-9F, 0x1.a79b22p-9F, 0x1.73a8a6p-12F,
     0x1.36da0ep-17F, 0x1.1e9006p-25F, 0x1.0f9fb0p-3F, 0x1.0f9fb0p-3F},
    {0x1.64ce92p-7F, 0x1.cf08d8p-8F, -0x1.8dcc24p-11F, -0x1.e4d55cp-14F,
     -0x1.9de77ap-19F, -0x1.4e851ep-27F, 0x1.2ef468p-8F, 0x1.2ef468p-8F,
     0x1.64ce92p-7F, 0x1.cf08d8p-8F, -0x1.8dcc24p-11F, -0x1.e4d55cp-14F,
     -0x1.9de77ap-19F, -0x1.4e851ep-27F, 0x1.2ef468p-8F, 0x1.2ef468p-8F},
    {0x1.cd37f6p-7F, -0x1.ff1456p-9F, 0x1.6a98cep-17F, 0x1.10c3a6p-15F,
     0x1.1bd18ep-20F, 0x1.c95c68p-30F, -0x1.1c4618p-4F, -0x1.1c4618p-4F,
     0x1.cd37f6p-7F, -0x1.ff1456p-9F, 0x1.6a98cep-17F, 0x1.10c3a6p-15F,
     0x1.1bd18ep-20F, 0x1.c95c68p-30F, -0x1.1c4618p-4F, -0x1.1c4618p-4F},
    {-0x1.5be71ep-7F, 0x1.f1e748p-11F, 0x1.42f388p-14F, -0x1.e6de3ap-18F,
     -0x1.1b297ap-22F, -0x1.107370p-29F, 0x1.bee6b0p-6F, 0x1.bee6b0p-6F,
     -0x1.5be71ep-7F, 0x1.f1e748p-11F, 0x1.42f388p-14F, -0x1.e6de3ap-18F,
     -0x1.1b297ap-22F, -0x1.107370p-29F, 0x1.bee6b0p-6F, 0x1.bee6b0p-6F},
    {0x1.c90e9cp-2F, 0x1.9a9aaap-1F, 0x1.4a740ap+0F, 0x1.f8cba6p+0F,
     0x1.7b25f4p+1F, 0x1.df38d0p+1F, -0x0.0p+0F, -0x0.0p+0F,
     0x1.c90e9cp-2F, 0x1.9a9aaap-1F, 0x1.4a740ap+0F, 0x1.f8cba6p+0F,
     0x1.7b25f4p+1F, 0x1.df38d0p+1F, -0x0.0p+0F, -0x0.0p+0F},
    {0x1.e3703ap-2F, 0x1.7c8d5ep-1F, 0x1.dd3920p-1F, 0x1.fd4a36p-1F,
     0x1.fffc54p-1F, 0x1.fffffcp-1F, 0x0.0p+0F, 0x0.0p+0F,
     0x1.e3703ap-2F, 0x1.7c8d5ep-1F, 0x1.dd3920p-1F, 0x1.fd4a36p-1F,
     0x1.fffc54p-1F, 0x1.fffffcp-1F, 0x0.0p+0F, 0x0.0p+0F},
    {0x1.d95f6ep-1F, 0x1.2fad58p-1F, 0x1.b4a88ap-3F, 0x1.7aa740p-6F,
     0x1.6e156ap-13F, 0x1.ef453ap-21F, 0x1.06eba8p-3F, 0x1.06eba8p-3F,
     0x1.d95f6ep-1F, 0x1.2fad58p-1F, 0x1.b4a88ap-3F, 0x1.7aa740p-6F,
     0x1.6e156ap-13F, 0x1.ef453ap-21F, 0x1.06eba8p-3F, 0x1.06eba8p-3F},
    {-0x1.a69330p-2F, -0x1.e71316p-2F, -0x1.19d39ap-2F, -0x1.75533ep-5F,
     -0x1.0f21a0p-11F, -0x1.d0da82p-19F, 0x1.e0cd7ap-28F, 0x1.e0cd7ap-28F,
     -0x1.a69330p-2F, -0x1.e71316p-2F, -0x1.19d39ap-2F, -0x1.75533ep-5F,
     -0x1.0f21a0p-11F, -0x1.d0da82p-19F, 0x1.e0cd7ap-28F, 0x1.e0cd7ap-28F},
    {-0x1.7bac0ep-3F, 0x1.cfa3aap-5F, 0x1.5380a0p-3F, 0x1.aba75ap-5F,
     0x1.f8cbaep-11F, 0x1.1770d4p-17F, -0x1.812764p-2F, -0x1.812764p-2F,
     -0x1.7bac0ep-3F, 0x1.cfa3aap-5F, 0x1.5380a0p-3F, 0x1.aba75ap-5F,
     0x1.f8cbaep-11F, 0x1.1770d4p-17F, -0x1.812764p-2F, -0x1.812764p-2F},
    {0x1.6e725ap-3F, 0x1.163e46p-3F, -0x1.f3afe4p-7F, -0x1.293234p-5F,
     -0x1.4841a6p-10F, -0x1.d2382ep-17F, 0x1.7373f4p-17F, 0x1.7373f4p-17F,
     0x1.6e725ap-3F, 0x1.163e46p-3F, -0x1.f3afe4p-7F, -0x1.293234p-5F,
     -0x1.4841a6p-10F, -0x1.d2382ep-17F, 0x1.7373f4p-17F, 0x1.7373f4p-17F},
    {0x1.7f0540p-6F, -0x1.eda1e0p-5F, -0x1.570128p-5F, 0x1.a8727ep-7F,
     0x1.39d40cp-10F, 0x1.0bb03cp-16F, 0x1.cda2b4p-4F, 0x1.cda2b4p-4F,
     0x1.7f0540p-6F, -0x1.eda1e0p-5F, -0x1.570128p-5F, 0x1.a8727ep-7F,
     0x1.39d40cp-10F, 0x1.0bb03cp-16F, 0x1.cda2b4p-4F, 0x1.cda2b4p-4F},
    {-0x1.9e8e56p-5F, -0x1.52e9cep-6F, 0x1.68c0c2p-6F, 0x1.31d9c6p-10F,
     -0x1.c156d0p-11F, -0x1.8dc19cp-17F, 0x1.cf605ep-11F, 0x1.cf605ep-11F,
     -0x1.9e8e56p-5F, -0x1.52e9cep-6F, 0x1.68c0c2p-6F, 0x1.31d9c6p-10F,
     -0x1.c156d0p-11F, -0x1.8dc19cp-17F, 0x1.cf605ep-11F, 0x1.cf605ep-11F},
    {0x1.35c7e8p-7F, 0x1.72a986p-7F, 0x1.0c8a9ep-9F, -0x1.e8fd2ep-9F,
     0x1.c4efaep-12F, 0x1.534b1ap-18F, -0x1.ed8bc2p-6F, -0x1.ed8bc2p-6F,
     0x1.35c7e8p-7F, 0x1.72a986p-7F, 0x1.0c8a9ep-9F, -0x1.e8fd2ep-9F,
     0x1.c4efaep-12F, 0x1.534b1ap-18F, -0x1.ed8bc2p-6F, -0x1.ed8bc2p-6F},
    {-0x1.3331f2p-6F, 0x1.8986f4p-6F, -0x1.4097a4p-8F, 0x1.8e21bap-10F,
     -0x1.dbf4d8p-14F, -0x1.f3b724p-21F, 0x1.a044dcp-8F, 0x1.a044dcp-8F,
     -0x1.3331f2p-6F, 0x1.8986f4p-6F, -0x1.4097a4p-8F, 0x1.8e21bap-10F,
     -0x1.dbf4d8p-14F, -0x1.f3b724p-21F, 0x1.a044dcp-8F, 0x1.a044dcp-8F},
    {0x1.afc886p-1F, 0x1.2e3cacp+0F, 0x1.849b06p+0F, 0x1.daf440p+0F,
     0x1.2e433cp+1F, 0x1.849a76p+1F, 0x1.daf918p+1F, 0x1.18a97ep+2F,
     0x1.5971a6p+2F, 0x1.afcaf4p+2F, 0x1.0311a2p+3F, 0x1.2e4304p+3F,
     0x1.5966dap-4F, 0x1.031708p-2F, 0x1.afc908p-2F, 0x1.2e4036p-1F},
    {0x1.e5e522p-2F, 0x1.880838p-2F, 0x1.465070p-2F, 0x1.164c30p-2F,
     0x1.c5db7ap-3F, 0x1.6aa19cp-3F, 0x1.2d20d8p-3F, 0x1.011b64p-3F,
     0x1.a52498p-4F, 0x1.52e0ccp-4F, 0x1.1b5052p-4F, 0x1.e69c30p-5F,
     0x1.d2b444p-1F, 0x1.89459cp-1F, 0x1.50fb70p-1F, 0x1.24f15ap-1F},
    {-0x1.4fec76p-2F, -0x1.cb913ap-3F, -0x1.498d98p-3F, -0x1.eb4298p-4F,
     -0x1.4ed66ap-4F, -0x1.b432d4p-5F, -0x1.30718ep-5F, -0x1.bf5180p-6F,
     -0x1.2e345ep-6F, -0x1.89728ep-7F, -0x1.13d738p-7F, -0x1.97a376p-8F,
     -0x1.f304dcp-1F, -0x1.7ab882p-1F, -0x1.258af2p-1F, -0x1.cfb970p-2F},
    {0x1.953406p-3F, 0x1.e2fc64p-4F, 0x1.30bd6cp-4F, 0x1.93857ap-5F,
     0x1.d414bcp-6F, 0x1.f8f7fcp-7F, 0x1.2b3996p-7F, 0x1.7cd7a0p-8F,
     0x1.ab3b74p-9F, 0x1.c43a22p-10F, 0x1.0aa534p-10F, 0x1.53a900p-11F,
     0x1.a89fa4p-1F, 0x1.2972ecp-1F, 0x1.aa692ap-2F, 0x1.38222cp-2F},
    {-0x1.b82ae2p-4F, -0x1.d13818p-5F, -0x1.06039ep-5F, -0x1.37d31cp-6F,
     -0x1.37ffa0p-7F, -0x1.1a4b10p-8F, -0x1.1e7c72p-9F, -0x1.3dbbd4p-10F,
     -0x1.29a3dap-11F, -0x1.015986p-12F, -0x1.ffe384p-14F, -0x1.198812p-14F,
     -0x1.34ce7ap-1F, -0x1.94a0d0p-2F, -0x1.0f824cp-2F, -0x1.749b02p-3F},
    {0x1.b733f2p-5F, 0x1.a0bb36p-6F, 0x1.a77802p-7F, 0x1.c90416p-8F,
     0x1.8eb6f6p-9F, 0x1.31be30p-10F, 0x1.0ba894p-11F, 0x1.0408aap-12F,
     0x1.990a28p-14F, 0x1.2224a4p-15F, 0x1.e7fd84p-17F, 0x1.d048aap-18F,
     0x1.8e9534p-2F, 0x1.ec8cf0p-3F, 0x1.37e5c4p-3F, 0x1.9448e6p-4F},
    {-0x1.9ab3a4p-6F, -0x1.608366p-7F, -0x1.467400p-8F, -0x1.416d48p-9F,
     -0x1.f16b4ep-11F, -0x1.453374p-12F, -0x1.ebbd80p-14F, -0x1.a3059cp-15F,
     -0x1.1a899cp-16F, -0x1.48a7fep-18F, -0x1.d2e34cp-20F, -0x1.7e9888p-21F,
     -0x1.d4c882p-3F, -0x1.0f53e0p-3F, -0x1.4f9e1cp-4F, -0x1.9a4df0p-5F},
    {0x1.65855ep-7F, 0x1.1843bcp-8F, 0x1.dc9560p-10F, 0x1.aef656p-11F,
     0x1.26af50p-12F, 0x1.4c4a88p-14F, 0x1.b6f79ap-16F, 0x1.4aa780p-17F,
     0x1.79e31ep-19F, 0x1.6ba79cp-21F, 0x1.b704fcp-23F, 0x1.385208p-24F,
     0x1.fa29c2p-4F, 0x1.1488e0p-4F, 0x1.4db42ap-5F, 0x1.82cf58p-6F},
    {0x1.700000p+0F, 0x1.500000p+0F, 0x1.400000p+0F, 0x1.200000p+0F,
     0x1.100000p+0F, 0x1.000000p+0F, 0x1.c00000p-1F, 0x1.a00000p-1F,
     0x1.700000p+0F, 0x1.500000p+0F, 0x1.400000p+0F, 0x1.200000p+0F,
     0x1.100000p+0F, 0x1.000000p+0F, 0x1.c00000p-1F, 0x1.a00000p-1F},
    {-0x1.739c00p-2F, -0x1.167400p-2F, -0x1.c90000p-3F, -0x1.e27000p-4F,
     -0x1.f0a000p-5F, 0x0.0p+0F, 0x1.117800p-3F, 0x1.a94000p-3F,
     -0x1.739c00p-2F, -0x1.167400p-2F, -0x1.c90000p-3F, -0x1.e27000p-4F,
     -0x1.f0a000p-5F, 0x0.0p+0F, 0x1.117800p-3F, 0x1.a94000p-3F},
    {-0x1.7f6bbep-18F, -0x1.cababap-18F, 0x1.070cacp-20F, -0x1.db8abcp-22F,
     -0x1.86008cp-20F, 0x0.0p+0F, 0x1.d044fcp-20F, -0x1.2c3752p-19F,
     -0x1.7f6bbep-18F, -0x1.cababap-18F, 0x1.070cacp-20F, -0x1.db8abcp-22F,
     -0x1.86008cp-20F, 0x0.0p+0F, 0x1.d044fcp-20F, -0x1.2c3752p-19F},
    {0x1.000000p+0F, 0x1.306fe0p+0F, 0x1.6a09e6p+0F, 0x1.ae89fap+0F,
     0x1.000000p+0F, 0x1.306fe0p+0F, 0x1.6a09e6p+0F, 0x1.ae89fap+0F,
     0x1.000000p+0F, 0x1.306fe0p+0F, 0x1.6a09e6p+0F, 0x1.ae89fap+0F,
     0x1.000000p+0F, 0x1.306fe0p+0F, 0x1.6a09e6p+0F, 0x1.ae89fap+0F},
    {0x0.0p+0F, 0x1.4636e2p-25F, 0x1.9fcef4p-26F, -0x1.a94b14p-26F,
     0x0.0p+0F, 0x1.4636e2p-25F, 0x1.9fcef4p-26F, -0x1.a94b14p-26F,
     0x0.0p+0F, 0x1.4636e2p-25F, 0x1.9fcef4p-26F, -0x1.a94b14p-26F,
     0x0.0p+0F, 0x1.4636e2p-25F, 0x1.9fcef4p-26F, -0x1.a94b14p-26F},
};
inline constexpr double kDoubleTables[][16] = {
    {0x1.7000000000000p+0, 0x1.5000000000000p+0, 0x1.4000000000000p+0, 0x1.2000000000000p+0,
     0x1.1000000000000p+0, 0x1.0000000000000p+0, 0x1.c000000000000p-1, 0x1.a000000000000p-1,
     0x1.7000000000000p+0, 0x1.5000000000000p+0, 0x1.4000000000000p+0, 0x1.2000000000000p+0,
     0x1.1000000000000p+0, 0x1.0000000000000p+0, 0x1.c000000000000p-1, 0x1.a000000000000p-1},
    {-0x1.739d800000000p-2, -0x1.1675d00000000p-2, -0x1.c8ff800000000p-3, -0x1.e270800000000p-4,
     -0x1.f0a3000000000p-5, 0x0.0p+0, 0x1.1178e00000000p-3, 0x1.a93ee00000000p-3,
     -0x1.739d800000000p-2, -0x1.1675d00000000p-2, -0x1.c8ff800000000p-3, -0x1.e270800000000p-4,
     -0x1.f0a3000000000p-5, 0x0.0p+0, 0x1.1178e00000000p-3, 0x1.a93ee00000000p-3},
    {0x1.2885ff2c63b67p-27, 0x1.515167c7f18cep-24, 0x1.c32b2ef29ed14p-26, 0x1.23aa1a342c2afp-25,
     -0x1.8022c54cc2f99p-26, 0x0.0p+0, 0x1.044fc8f7bc671p-24, -0x1.86ea4c3921a83p-24,
     0x1.2885ff2c63b67p-27, 0x1.515167c7f18cep-24, 0x1.c32b2ef29ed14p-26, 0x1.23aa1a342c2afp-25,
     -0x1.8022c54cc2f99p-26, 0x0.0p+0, 0x1.044fc8f7bc671p-24, -0x1.86ea4c3921a83p-24},
    {0x1.0000000000000p+0, 0x1.172b83c7d517bp+0, 0x1.306fe0a31b715p+0, 0x1.4bfdad5362a27p+0,
     0x1.6a09e667f3bcdp+0, 0x1.8ace5422aa0dbp+0, 0x1.ae89f995ad3adp+0, 0x1.d5818dcfba487p+0,
     0x1.0000000000000p+0, 0x1.172b83c7d517bp+0, 0x1.306fe0a31b715p+0, 0x1.4bfdad5362a27p+0,
     0x1.6a09e667f3bcdp+0, 0x1.8ace5422aa0dbp+0, 0x1.ae89f995ad3adp+0, 0x1.d5818dcfba487p+0},
    {0x0.0p+0, -0x1.1904200000000p-55, 0x1.6f46b00000000p-55, 0x1.d439800000000p-56,
     -0x1.bdd3400000000p-54, 0x1.6e9f100000000p-54, 0x1.7a1cd00000000p-54, 0x1.2ed0300000000p-55,
     0x0.0p+0, -0x1.1904200000000p-55, 0x1.6f46b00000000p-55, 0x1.d439800000000p-56,
     -0x1.bdd3400000000p-54, 0x1.6e9f100000000p-54, 0x1.7a1cd00000000p-54, 0x1.2ed0300000000p-55},
};
// clang-format on

}  // namespace lamina::hlo::scalar

#endif  // LAMINA_HLO_SCALAR_TABLE_VALUES_H_
