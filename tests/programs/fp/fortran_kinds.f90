! Fortran arithmetic in four kinds of real: sums, dot products and quadruple
! precision as bits, intrinsic inquiries, IEEE rounding modes and flags.
program fortran_kinds
  use, intrinsic :: ieee_arithmetic
  use iso_fortran_env, only: real32, real64, real128, int32, int64
  implicit none
  integer, parameter :: n = 200000
  real(real32) :: s4
  real(real64) :: s8, x(n), y(n), third
  real(real128) :: s16
  complex(real64) :: z
  integer :: i
  logical :: flag
  type(ieee_round_type), parameter :: modes(4) = [ieee_nearest, ieee_up, ieee_down, ieee_to_zero]

  s4 = 0
  s8 = 0
  s16 = 0
  do i = 1, n
    s4 = s4 + 1.0_real32 / i
    s8 = s8 + 1.0_real64 / i
    s16 = s16 + 1.0_real128 / i
    x(i) = mod(i * 7919_int64, 10007_int64) / 10007.0_real64
    y(i) = 1.0_real64 / (i + x(i))
  end do
  print '(a, z8.8)', 'real32  ', transfer(s4, 0_int32)
  print '(a, z16.16)', 'real64  ', transfer(s8, 0_int64)
  print '(a, f40.34)', 'real128 ', s16
  s8 = 0
  do i = 1, n
    s8 = s8 + x(i) * y(i)
  end do
  print '(a, z16.16)', 'product ', transfer(s8, 0_int64)
  print '(a, 2(1x, i0))', 'extremes at', maxloc(x), minloc(y)

  z = (0.3_real64, 0.5_real64)
  do i = 1, 50
    z = z * z + (-0.4_real64, 0.1_real64)
  end do
  print '(a, 2(1x, z16.16))', 'complex', transfer(real(z), 0_int64), transfer(aimag(z), 0_int64)

  do i = 1, 4
    call ieee_set_rounding_mode(modes(i))
    third = quotient(1.0_real64, 3.0_real64)
    call ieee_set_rounding_mode(ieee_nearest)
    print '(a, i0, a, z16.16)', 'mode ', i, ': 1/3 = ', transfer(third, 0_int64)
  end do
  call ieee_set_flag(ieee_all, .false.)
  third = quotient(1.0_real64, 0.0_real64)
  call ieee_get_flag(ieee_divide_by_zero, flag)
  print '(a, l1, 1x, l1)', 'division by zero: ', flag, .not. ieee_is_finite(third)
  call ieee_set_flag(ieee_all, .false.)
  print '(3(1x, i0), 3(1x, es12.5))', precision(s4), precision(s8), precision(s16), epsilon(s4), epsilon(s8), tiny(s8)
  print '(3(1x, es23.16))', spacing(1.0_real64), nearest(1.0_real64, -1.0_real64), scale(fraction(10.0_real64), 5)

contains

  function quotient(a, b) result(q)
    real(real64), value :: a, b
    real(real64) :: q
    ! Kept from the compiler, which would divide by its own rules.
    real(real64), volatile :: divisor
    divisor = b
    q = a / divisor
  end function
end program
