! MPI in Fortran, by all three of its interfaces: mpi_f08, mpi and mpif.h. Messages, derived types, operations of ours, requests,
! communicators, windows and files.
module checks
  use mpi_f08
  implicit none
  integer :: rank, ranks, next, last, failed = 0, count = 0
contains
  ! Whether it holds on every rank: one line, of rank 0.
  subroutine agree(ok, what)
    logical, intent(in) :: ok
    character(*), intent(in) :: what
    logical :: all_right
    call MPI_Allreduce(ok, all_right, 1, MPI_LOGICAL, MPI_LAND, MPI_COMM_WORLD)
    count = count + 1
    if (.not. all_right) failed = failed + 1
    if (rank == 0) print '(a)', merge('ok   ', 'FAIL ', all_right) // what
  end subroutine

  ! The smallest in size, as it is: of reals that differ in sign.
  subroutine nearest(invec, inoutvec, len, datatype)
    use, intrinsic :: iso_c_binding, only: c_ptr, c_f_pointer
    type(c_ptr), value :: invec, inoutvec
    integer :: len
    type(MPI_Datatype) :: datatype
    real(8), pointer :: a(:), b(:)
    if (datatype /= MPI_DOUBLE_PRECISION) call MPI_Abort(MPI_COMM_WORLD, 9)
    call c_f_pointer(invec, a, [len])
    call c_f_pointer(inoutvec, b, [len])
    where (abs(a) < abs(b)) b = a
  end subroutine

  subroutine messages
    integer, asynchronous :: into(5000), from(5000)
    integer :: i
    type(MPI_Request) :: both(2)
    type(MPI_Status) :: status
    type(MPI_Datatype) :: column
    real(8) :: square(20, 30), taken(20)
    character(12) :: name
    from = [(rank * 10000 + i, i = 1, 5000)]
    call MPI_Irecv(into, 5000, MPI_INTEGER, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, both(1))
    call MPI_Isend(from, 5000, MPI_INTEGER, next, 3, MPI_COMM_WORLD, both(2))
    call MPI_Waitall(2, both, MPI_STATUSES_IGNORE)
    call agree(all(into == [(last * 10000 + i, i = 1, 5000)]), 'mpi_f08: requests')
    square = rank
    square(7, :) = [(1000 * rank + i, i = 1, 30)]
    call MPI_Type_vector(30, 1, 20, MPI_DOUBLE_PRECISION, column)
    call MPI_Type_commit(column)
    square(1:20, 1) = square(1:20, 1) + 0.5d0
    call MPI_Sendrecv(square(7, 1), 1, column, next, 4, into, 0, MPI_INTEGER, MPI_PROC_NULL, 4, MPI_COMM_WORLD, status)
    block
      real(8) :: row(30)
      call MPI_Recv(row, 30, MPI_DOUBLE_PRECISION, last, 4, MPI_COMM_WORLD, status)
      call MPI_Get_count(status, MPI_DOUBLE_PRECISION, i)
      call agree(i == 30 .and. status%MPI_SOURCE == last .and. abs(row(1) - 1000 * last - 1.5d0) < 1d-9 .and. &
                 abs(row(30) - 1000 * last - 30) < 1d-9, 'mpi_f08: a row of a matrix')
    end block
    call MPI_Type_free(column)
    taken = 0
    name = 'of nobody'
    if (rank == 0) name = 'of rank 0'
    call MPI_Bcast(name, 12, MPI_CHARACTER, 0, MPI_COMM_WORLD)
    call agree(name == 'of rank 0' .and. all(taken == 0), 'mpi_f08: characters')
  end subroutine

  subroutine reductions
    real(8) :: mine(100), best(100)
    complex(8) :: z, total
    integer :: i
    type(MPI_Op) :: op
    type(MPI_Request) :: request
    mine = [((rank + 1) * (-1) ** rank * real(i, 8), i = 1, 100)]
    call MPI_Op_create(nearest, .true., op)
    call MPI_Allreduce(mine, best, 100, MPI_DOUBLE_PRECISION, op, MPI_COMM_WORLD)
    call MPI_Op_free(op)
    call agree(all(best == [(real(i, 8), i = 1, 100)]), 'mpi_f08: an operation of ours')
    z = cmplx(1, rank, 8)
    call MPI_Iallreduce(z, total, 1, MPI_DOUBLE_COMPLEX, MPI_SUM, MPI_COMM_WORLD, request)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    call agree(nint(real(total)) == ranks .and. nint(aimag(total)) == ranks * (ranks - 1) / 2, 'mpi_f08: complex numbers')
  end subroutine

  subroutine shared_window
    use, intrinsic :: iso_c_binding, only: c_ptr, c_f_pointer
    type(MPI_Win) :: window
    type(c_ptr) :: place
    integer(MPI_ADDRESS_KIND) :: bytes
    integer :: unit
    integer, pointer :: mine(:), its(:)
    call MPI_Win_allocate_shared(4000_MPI_ADDRESS_KIND, 4, MPI_INFO_NULL, MPI_COMM_WORLD, place, window)
    call c_f_pointer(place, mine, [1000])
    call MPI_Win_fence(0, window)
    mine = rank + 5
    call MPI_Win_fence(0, window)
    call MPI_Win_shared_query(window, next, bytes, unit, place)
    call c_f_pointer(place, its, [1000])
    call agree(bytes >= 4000 .and. unit == 4 .and. all(its == next + 5), 'mpi_f08: memory that ranks share')
    call MPI_Win_fence(0, window)
    call MPI_Win_free(window)
  end subroutine
end module

subroutine by_module
  use mpi
  use checks, only: agree, rank, ranks
  implicit none
  integer :: half, error, sum, expected, n, file, status(MPI_STATUS_SIZE), i
  integer(MPI_OFFSET_KIND) :: where
  real(8) :: out(100), in(100)
  call MPI_COMM_SPLIT(MPI_COMM_WORLD, mod(rank, 2), rank, half, error)
  call MPI_COMM_SIZE(half, n, error)
  call MPI_ALLREDUCE(rank, sum, 1, MPI_INTEGER, MPI_SUM, half, error)
  expected = 0
  do i = mod(rank, 2), ranks - 1, 2
    expected = expected + i
  end do
  call MPI_COMM_FREE(half, error)
  call agree(sum == expected, 'mpi: communicators')
  out = [(rank + i * 0.25d0, i = 1, 100)]
  where = rank * 800
  call MPI_FILE_OPEN(MPI_COMM_WORLD, 'of-fortran', MPI_MODE_CREATE + MPI_MODE_RDWR, MPI_INFO_NULL, file, error)
  call MPI_FILE_WRITE_AT_ALL(file, where, out, 100, MPI_DOUBLE_PRECISION, status, error)
  call MPI_FILE_READ_AT_ALL(file, where, in, 100, MPI_DOUBLE_PRECISION, status, error)
  call MPI_FILE_CLOSE(file, error)
  call agree(all(in == out), 'mpi: files')
end subroutine

subroutine by_header
  use checks, only: agree, rank, next, last
  implicit none
  include 'mpif.h'
  integer :: error, status(MPI_STATUS_SIZE), request, token, got
  logical :: done
  call MPI_RECV_INIT(token, 1, MPI_INTEGER, last, 8, MPI_COMM_WORLD, request, error)
  call MPI_START(request, error)
  call MPI_SEND(rank, 1, MPI_INTEGER, next, 8, MPI_COMM_WORLD, error)
  done = .false.
  do while (.not. done)
    call MPI_TEST(request, done, status, error)
  end do
  call MPI_REQUEST_FREE(request, error)
  call MPI_GET_COUNT(status, MPI_INTEGER, got, error)
  call agree(token == last .and. got == 1 .and. status(MPI_SOURCE) == last, 'mpif.h: persistent requests')
end subroutine

program fortran
  use checks
  implicit none
  external :: by_module, by_header
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  next = mod(rank + 1, ranks)
  last = mod(rank + ranks - 1, ranks)
  call messages
  call reductions
  call shared_window
  call by_module
  call by_header
  if (rank == 0) print '(i0,a,i0,a)', count, ' checks, ', failed, ' failed'
  call MPI_Finalize()
  if (failed > 0) stop 1
end program
