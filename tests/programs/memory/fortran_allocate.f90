! Fortran's allocatable arrays: growth by move_alloc and reallocation on
! assignment, matrices, stat= on an impossible size, pointers and slices.
program fortran_allocate
  implicit none
  integer, parameter :: dp = kind(1d0), i8 = selected_int_kind(18)
  real(dp), allocatable :: a(:, :), b(:, :), c(:, :), list(:), bigger(:)
  real(dp), pointer :: slice(:)
  real(dp), allocatable, target :: storage(:)
  integer :: i, j, status
  integer(i8) :: huge_size

  allocate(a(300, 300), b(300, 300))
  do j = 1, 300
    do i = 1, 300
      a(i, j) = mod(i * j, 17)
      b(i, j) = mod(i + j, 13)
    end do
  end do
  c = matmul(a, b)
  print '(a, f16.1, a, f16.1)', 'matmul: trace ', sum([(c(i, i), i = 1, 300)]), ', sum ', sum(c)
  c = transpose(c(1:100, 1:50))
  print '(a, 2(1x, i0))', 'reallocated on assignment:', shape(c)
  deallocate(a, b)

  allocate(list(1))
  list = 1
  do i = 1, 21
    allocate(bigger(2 * size(list)))
    bigger(:size(list)) = list
    bigger(size(list)+1:) = i
    call move_alloc(bigger, list)
  end do
  print '(a, i0, a, f14.1)', 'grown to ', size(list), ' items, sum ', sum(list)
  print '(a, l1)', 'moved from: ', allocated(bigger)

  allocate(storage(1000000))
  storage = [(real(i, dp), i = 1, 1000000)]
  slice => storage(1::1000)
  print '(a, i0, a, f14.1)', 'a slice of ', size(slice), ' items, sum ', sum(slice)
  slice = 0
  print '(a, i0)', 'zeros in the target: ', count(abs(storage) < 0.5_dp)

  huge_size = 2_i8**58
  allocate(bigger(huge_size), stat=status)
  print '(a, l1)', '2^61 bytes give a status: ', status /= 0
  allocate(list(10), stat=status)
  print '(a, l1)', 'allocating twice gives a status: ', status /= 0
end program
